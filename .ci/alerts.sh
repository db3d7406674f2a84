#!/usr/bin/env bash
# Checks and tests what deploy/ holds for Prometheus and Grafana. It wants promtool, of Debian's
# package prometheus, and python3.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v promtool >/dev/null || {
  echo "alerts: promtool is needed; it is in Debian's package prometheus" >&2
  exit 1
}
promtool check config deploy/prometheus/prometheus.yml
promtool test rules deploy/prometheus/tests/*.yml

# The dashboard's expressions are checked as if each were a recording rule, with values for the
# variables that Grafana would fill in.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - deploy/grafana/lancemaster.json >"$work/dashboard.yml" <<'PYTHON'
import json, sys

def expressions(node):
    if isinstance(node, dict):
        if isinstance(node.get("expr"), str):
            yield node["expr"]
        for value in node.values():
            yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)

rules = []
for i, expr in enumerate(expressions(json.load(open(sys.argv[1])))):
    for variable, value in {"$__rate_interval": "5m", "$job": "j", "$cluster": "c", "$instance": "i"}.items():
        expr = expr.replace(variable, value)
    rules.append({"record": f"dashboard:expression{i}", "expr": expr})
if not rules:
    sys.exit("alerts: the dashboard has no expression")
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PYTHON
promtool check rules "$work/dashboard.yml"

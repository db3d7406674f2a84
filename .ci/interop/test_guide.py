"""The examples of docs/backend-authors.md, as they stand there, against a real master."""

import os
import re
import subprocess
import sys
import unittest

from harness import DATASET, ROOT, WORK, Example, Master, free_ports

GUIDE = ROOT / "docs" / "backend-authors.md"
WORKS = ["sh", "-c", 'cat >"$0"']  # keeps the dispatch in a file, the next argument
FAILS = ["sh", "-c", "exit 7"]


def example(language):
    found = re.findall(r"^```%s\n(.*?)^```$" % language, GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    if len(found) != 1:
        raise AssertionError("%s has %d examples in %s, not one" % (GUIDE, len(found), language))
    return found[0]


class Guide(unittest.TestCase):
    def run_example(self, *program):
        master = Master(self.addCleanup)
        taken = WORK / ("%s.json" % self.id())
        for worker, name, exit_code, state in (
                ([*WORKS, str(taken)], "works", 0, "COMMITTED"),
                (FAILS, "fails", 4, "UNKNOWN"),
                ([str(WORK / "no-such-worker")], "cannot_start", 3, "NOT_COMMITTED")):
            with self.subTest(worker=name):
                ports = free_ports(2)
                backend = Example(self.addCleanup, "example", [*program, *map(str, ports), *worker])
                master.add_backend(*ports)
                number = master.create(name, "id", "btree")
                master.wait(number, ends=exit_code)
                job = master.job(number)
                self.assertEqual((job["state"], job["slot_held"]), (state, False))
                if state == "COMMITTED":
                    text = taken.read_text()
                    self.assertIn("file://%s" % DATASET, text)
                    self.assertNotRegex(text, r'"invocation_secret": *"[0-9a-f]')
                backend.stop()
                # A local dataset is served by one backend only.
                master.cli("backend", "remove", str(job["dispatch"]["backend_id"]))

    def test_python(self):
        file = WORK / "example.py"
        file.write_text(example("python"))
        self.run_example(sys.executable, str(file))

    def test_go(self):
        source, program = WORK / "example.go", WORK / "example-go"
        source.write_text(example("go"))
        go = os.environ["GO"]
        root = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, timeout=30, check=True).stdout.strip()
        gofmt = subprocess.run([root + "/bin/gofmt", "-l", source], capture_output=True, text=True, timeout=30, check=True)
        self.assertEqual(gofmt.stdout, "", "gofmt would change the example")
        for verb in (["vet"], ["build", "-o", program]):
            done = subprocess.run([go, *verb, source], cwd=ROOT, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.run_example(str(program))

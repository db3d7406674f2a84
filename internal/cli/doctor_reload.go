package cli

// judgeReloads tells of what a master could not read again: it goes on with what it had, and would not start
// with what is there now. It reports whether the certificates are among it.
func (e *evidence) judgeReloads(l *checks) {
	for _, p := range e.allPages() {
		if v, ok := p.page.of(metricCertificatesRead); ok && v == 0 {
			l.add(doctorFail, "certificate files "+p.name, "see in its log which and why, and put right ones there: they are read again by themselves; do not restart it before",
				"those of tls.* were changed and cannot be used: it goes on with the ones before")
		}
		if v, ok := p.page.of("lancemaster_tokens_file_reload_success"); ok && v == 0 {
			l.add(doctorFail, "tokens file "+p.name, "run lancemaster config check --config FILE on its machine and put a right file there: it is read again by itself; do not restart it before",
				"that of admin.tokens_file was changed and cannot be used: the tokens of before stay valid there, those taken out of it since too")
		}
		if v, ok := p.page.of("lancemaster_config_last_reload_successful"); ok && v == 0 {
			l.add(doctorFail, "configuration "+p.name, "run lancemaster config check --config FILE on its machine, correct what it names, and send SIGHUP; do not restart it before",
				"it, or a file that it names, was faulty at the last reload: it goes on with the one before")
		}
	}
}

// metricCertificatesRead is 1 while the certificate files read last were fit to be used; of several, the least counts.
const metricCertificatesRead = "lancemaster_tls_reload_success"

// certificatesStale reports whether a master could not take its newest certificates.
func (e *evidence) certificatesStale() bool {
	for _, p := range e.allPages() {
		if v, ok := p.page.of(metricCertificatesRead); ok && v == 0 {
			return true
		}
	}
	return false
}

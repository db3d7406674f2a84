"""A backend in Python and a real master, in both directions, in the default protocol and in the other extreme."""

import json
import threading
import unittest

from report.ttypes import TLanceIndexJobReport, TLanceIndexJobTerminationReport
from shared.ttypes import (
    TLanceIndexMutationType, TLanceIndexResultCode, TLanceIndexTerminationProof, TNetworkAddress, TStatus, TStatusCode)

from harness import DATASET, Backend, Master, Wire

RESULT, TERMINATION = "reportLanceIndexJobResult", "reportLanceIndexJobTermination"


def identity(job):
    return dict(job_id=job.job_id, dispatch_revision=job.dispatch_revision, invocation_id=job.invocation_id,
                be_process_epoch=job.be_process_epoch)


class Cases:
    """What holds in each protocol; a class below for each runs it."""

    @classmethod
    def setUpClass(cls):
        cls.master = Master(cls.addClassCleanup, cls.wire)
        cls.backend = Backend(cls.addClassCleanup, Wire(cls.wire))
        cls.master.add_backend(cls.backend.port, cls.backend.heartbeat_port)

    def setUp(self):
        self.backend.answer = lambda job: TStatus(TStatusCode.OK)

    def ivf_pq(self, name):
        """Submits a job, and returns its number and its dispatch."""
        number = self.master.create(name, "VEC", "ivf_pq", "--property", "num_partitions=2", "--property", "num_sub_vectors=4")
        return number, self.backend.dispatched(number)

    def report(self, method, said, dropped=None):
        """Reports. OK without a message says that it was applied; dropped is in the message of one that was not."""
        answer = self.backend.call(self.master, method, said)
        self.assertEqual(answer.status_code, TStatusCode.OK)
        if dropped:
            self.assertIn(dropped, " ".join(answer.error_msgs or []))
        else:
            self.assertFalse(answer.error_msgs)

    def test_heartbeat(self):
        with self.backend.lock:
            told = self.backend.heartbeats[-1]
        self.assertEqual(told.network_address, TNetworkAddress(self.master.report_address[0], int(self.master.report_address[1])))
        self.assertEqual((told.token, told.backend_id, told.backend_ip), (Master.TOKEN, 1, None))
        self.assertGreater(told.cluster_id, 0)
        self.assertGreater(told.epoch & (1 << 40) - 1, 0)
        seen = self.master.backend()
        self.assertEqual(seen["process_epoch"], self.backend.epoch)
        self.assertRegex(seen["version"], r"^python 3\.\d+$")

    def test_dispatch(self):
        number, got = self.ivf_pq("By_Vec")
        self.assertEqual((got.job_id, got.dispatch_revision, got.be_process_epoch), (number, 1, self.backend.epoch))
        self.assertEqual((got.mutation_type, got.index_name, got.column_name), (TLanceIndexMutationType.CREATE, "By_Vec", "vec"))
        self.assertEqual(json.loads(got.properties_json)["num_sub_vectors"], "4")
        self.assertEqual((got.index_type.upper(), got.dataset_uri, got.admitted_dataset_version), ("IVF_PQ", "file://%s" % DATASET, 1))
        self.assertEqual(json.loads(got.schema_contract_json)["flds"][0]["nn"], "vec")
        self.assertEqual(got.storage_options, {"region": "eu", "secret_key": Master.KEY})
        self.assertRegex(got.invocation_secret, "^[0-9a-f]{32}$")
        self.assertEqual((got.max_num_partitions, got.max_num_sub_vectors), (4096, 256))
        shown = self.master.cli("job", "show", str(number), "-o", "json").stdout
        for secret in got.invocation_secret, Master.KEY, Master.TOKEN:
            self.assertNotIn(secret, shown + self.master.log.read_text())

    def test_result_then_termination(self):
        number, job = self.ivf_pq("proven_later")
        said = TLanceIndexJobReport(**identity(job), result_code=TLanceIndexResultCode.NATIVE_OK, sanitized_message="gebaut, \u00fc",
                                    external_metadata_advanced=True)
        self.report(RESULT, said, dropped="unauthenticated")
        said.invocation_secret = "f" * 32
        self.report(RESULT, said, dropped="unauthenticated")
        said.invocation_secret = job.invocation_secret
        said.result_code = 99
        self.report(RESULT, said, dropped="malformed")
        self.assertEqual(self.master.job(number)["state"], "RUNNING")

        said.result_code = TLanceIndexResultCode.NATIVE_OK
        self.report(RESULT, said)
        self.master.cli("job", "wait", str(number), "--for", "resolved", "--timeout", "30s")
        shown = self.master.job(number)
        self.assertEqual((shown["state"], shown["result"]["code"], shown["result"]["message"]), ("COMMITTED", "NATIVE_OK", "gebaut, \u00fc"))
        self.assertEqual((shown["fence_held"], shown["slot_held"]), (False, True))
        self.report(RESULT, said, dropped="duplicate")

        gone = TLanceIndexJobTerminationReport(**identity(job), proof=TLanceIndexTerminationProof.CHILD_REAPED)
        self.report(TERMINATION, gone, dropped="unauthenticated")
        self.assertTrue(self.master.job(number)["slot_held"])
        gone.invocation_secret = job.invocation_secret
        self.report(TERMINATION, gone)
        shown = self.master.job(number)
        self.assertEqual((shown["slot_held"], shown["dispatch"]["proof"], shown["open"]), (False, "CHILD_REAPED", False))

    def test_reports_as_it_answers(self):
        """A backend that is done before it has answered: its report comes first."""
        def answer(job):
            said = TLanceIndexJobReport(**identity(job), result_code=TLanceIndexResultCode.NATIVE_OK,
                                        termination_proof=TLanceIndexTerminationProof.CHILD_REAPED, invocation_secret=job.invocation_secret)
            thread = threading.Thread(target=self.backend.call, args=(self.master, RESULT, said), daemon=True)
            thread.start()
            thread.join(10)
            return TStatus(TStatusCode.OK)
        self.backend.answer = answer
        number = self.master.create("early", "id", "btree")
        self.master.cli("job", "wait", str(number), "--for", "resolved", "--timeout", "30s")
        self.assertIsNone(self.backend.dispatched(number).properties_json)
        shown = self.master.job(number)
        self.assertEqual((shown["state"], shown["open"]), ("COMMITTED", False))

    def test_refusal(self):
        self.backend.answer = lambda job: TStatus(TStatusCode.TOO_MANY_TASKS, ["not now"])
        number = self.master.create("refused", "id", "btree")
        self.master.wait(number, ends=3)
        shown = self.master.job(number)
        self.assertEqual((shown["open"], shown["dispatch"]["proof"]), (False, "NOT_ENQUEUED"))
        self.assertIn("TOO_MANY_TASKS", shown["result"]["message"])

    def test_exception(self):
        """A backend that fails while it is called leaves the outcome in doubt."""
        def answer(_):
            raise ValueError("a fault of the backend's")
        self.backend.answer = answer
        with self.assertLogs():  # where the library tells of it
            number = self.master.create("faulty", "id", "btree")
            self.master.wait(number, ends=4)
        self.backend.dispatched(number)
        self.assertTrue(self.master.job(number)["slot_held"])


class Binary(Cases, unittest.TestCase):
    wire = "binary"


class CompactFramed(Cases, unittest.TestCase):
    wire = "compact-framed"

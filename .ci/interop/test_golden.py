"""The bytes that the master pins for each wire struct, read and written by another language."""

import unittest

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.transport.TTransport import TMemoryBuffer

from admin.ttypes import TAdminError, TAdminErrorCode, TRequestContext
from backend.ttypes import TBackendInfo, THeartbeatResult, TLanceIndexJobDispatch, TMasterInfo
from report.ttypes import TLanceIndexJobReport, TLanceIndexJobTerminationReport
from shared.ttypes import (
    TLanceIndexCompletionReason, TLanceIndexMutationType, TLanceIndexResultCode, TLanceIndexTerminationProof, TNetworkAddress,
    TStatus, TStatusCode)

from harness import ROOT

FOLDER = ROOT / "internal" / "rpc" / "testdata" / "wire"
EPOCH, DEADLINE = 1_699_999_000_000, 1_700_000_360_000
SECRET = "0123456789abcdef" * 2
IDENTITY = dict(job_id=7, dispatch_revision=1, invocation_id="inv-7", be_process_epoch=EPOCH)


def wire_structs():
    return {
        "dispatch": TLanceIndexJobDispatch(
            **IDENTITY, deadline_ms=DEADLINE, mutation_type=TLanceIndexMutationType.CREATE, index_name="Idx", column_name="vec",
            index_type="IVF_PQ", properties_json='{"index_type":"ivf_pq"}', if_not_exists=True, if_exists=True, dataset_uri="s3://b/t",
            admitted_dataset_version=3, schema_contract_json='{"scv":1}', storage_options={"region": "eu"}, invocation_secret=SECRET,
            max_num_partitions=4096, max_num_sub_vectors=256),
        "dispatch-drop": TLanceIndexJobDispatch(
            **{**IDENTITY, "job_id": 8, "invocation_id": "inv-8"}, deadline_ms=DEADLINE, mutation_type=TLanceIndexMutationType.DROP,
            index_name="Idx", column_name="", index_type="", if_exists=True, dataset_uri="s3://b/t", admitted_dataset_version=3,
            schema_contract_json="", invocation_secret=SECRET, max_num_partitions=4096, max_num_sub_vectors=256),
        "report": TLanceIndexJobReport(
            **IDENTITY, result_code=TLanceIndexResultCode.NATIVE_OK, completion_reason=TLanceIndexCompletionReason.IF_CONDITION_NOOP,
            sanitized_message="built", external_metadata_advanced=True, termination_proof=TLanceIndexTerminationProof.CHILD_REAPED,
            invocation_secret=SECRET),
        "report-least": TLanceIndexJobReport(**IDENTITY, result_code=TLanceIndexResultCode.NATIVE_IO),
        "termination": TLanceIndexJobTerminationReport(
            **IDENTITY, proof=TLanceIndexTerminationProof.NEVER_LAUNCHED, invocation_secret=SECRET),
        "status": TStatus(TStatusCode.NOT_IMPLEMENTED_ERROR, ["one", "two"]),
        "master-info": TMasterInfo(
            TNetworkAddress("m1", 9020), 9, 1 << 40 | 5, token="tok", backend_ip="10.0.0.7", http_port=8030, heartbeat_flags=1,
            backend_id=3),
        "heartbeat-result": THeartbeatResult(TStatus(TStatusCode.OK), TBackendInfo(
            9060, 8040, be_rpc_port=0, brpc_port=8060, version="v1", be_start_time=EPOCH)),
        "admin-error": TAdminError(
            TAdminErrorCode.FENCE_HELD, "held", next_step="wait", leader_address="m1:9021", holder_job_id=4),
        "admin-context": TRequestContext("tok", "joe", "v1"),
    }


def dumps(file):
    """The bytes of each protocol, from a file of hex dumps with a heading each."""
    out, name = {}, None
    for line in file.read_text().splitlines():
        if line and not line[0].isdigit():
            name = line
            out[name] = b""
        elif line:
            out[name] += bytes.fromhex(line[8:58])
    return out


def read(kind, source):
    """A struct reads itself into an instance; an exception, which cannot be changed, is made by its class."""
    if issubclass(kind, Exception):
        return kind.read(source)
    value = kind()
    value.read(source)
    return value


class Golden(unittest.TestCase):
    def test_each_file(self):
        structs = wire_structs()
        self.assertEqual(sorted(structs), sorted(f.stem for f in FOLDER.glob("*.hex")), "the structs here and the files there")
        for name, want in structs.items():
            raw = dumps(FOLDER / (name + ".hex"))
            self.assertEqual(sorted(raw), ["binary", "compact"], name)
            for protocol, make in ("binary", TBinaryProtocol), ("compact", TCompactProtocol):
                with self.subTest(struct=name, protocol=protocol):
                    got = read(type(want), make(TMemoryBuffer(raw[protocol])))
                    got.validate()
                    self.assertEqual(got, want)
                    sink = TMemoryBuffer()
                    want.write(make(sink))
                    self.assertEqual(sink.getvalue().hex(" "), raw[protocol].hex(" "))

"""The lighthouse's messages (torchft 0.2.0, ``proto/torchft.proto``): those fields that are used here.

Fields that are not named here pass through unchanged, as protobuf keeps them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

QUORUM = "/torchft.LighthouseService/Quorum"
HEARTBEAT = "/torchft.LighthouseService/Heartbeat"
_STRING, _INT64 = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64
_MEMBER, _QUORUM = ".torchft.QuorumMember", ".torchft.Quorum"
_TABLE: dict[str, dict[str, tuple[int, int | str, bool]]] = {
    "QuorumMember": {
        "replica_id": (1, _STRING, False), "step": (4, _INT64, False), "commit_failures": (8, _INT64, False),
    },
    "Quorum": {"quorum_id": (1, _INT64, False), "participants": (2, _MEMBER, True)},
    "LighthouseQuorumRequest": {"requester": (1, _MEMBER, False)},
    "LighthouseQuorumResponse": {"quorum": (1, _QUORUM, False)},
    "LighthouseHeartbeatRequest": {"replica_id": (1, _STRING, False)},
    "LighthouseHeartbeatResponse": {},
}  # fmt: skip
"""Message -> field -> number, type, whether it is repeated."""


def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name="bftrainer/torchft.proto", package="torchft", syntax="proto3")
    for name, fields in _TABLE.items():
        message: DescriptorProto = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
            else:
                added.type = kind
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"torchft.{name}")) for name in _TABLE}


_CLASSES = _classes()
QuorumRequest: Any = _CLASSES["LighthouseQuorumRequest"]
QuorumResponse: Any = _CLASSES["LighthouseQuorumResponse"]
HeartbeatRequest: Any = _CLASSES["LighthouseHeartbeatRequest"]
HeartbeatResponse: Any = _CLASSES["LighthouseHeartbeatResponse"]

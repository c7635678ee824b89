"""From a folder to a deployment: pack, upload in parts, complete."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from .._pack import pack
from .._requirements import NAME
from ._calls import Call, Calls, Work, exchange
from ._transport import Request

if TYPE_CHECKING:
    from ..flows import Flow


@dataclasses.dataclass(frozen=True)
class Deployed:
    """What a deployment points to now."""

    flow_name: str
    flow_version: str
    deployment_name: str
    deployment_version: int
    environment: str
    code_hash: str


def deploy(
    calls: Calls, flow: Flow, directory: str, name: str | None, version: str | None, environment: str | None, tier: str | None,
    platform: str | None, python_version: str | None,
) -> Call[Deployed]:
    spec = json.loads(flow.to_json())
    if (platform is None or python_version is None) and os.path.isfile(os.path.join(directory, NAME)):
        runtime = yield from _runtime(calls)
        platform, python_version = platform or runtime.get("platform"), python_version or runtime.get("python_version")
    content: bytes = yield Work(lambda: _zip(directory, platform, python_version))
    if version is None:
        digest = hashlib.sha256(content + json.dumps(spec, sort_keys=True).encode())
        version = "dev-" + digest.hexdigest()[:12]
    names = {"flow_name": flow.name, "flow_version": version}
    begun = yield from calls.json("POST", "/artifacts/initiate", {**names, "size_bytes": len(content)})
    parts, size = [], begun["part_size"]
    for i, part in enumerate(begun["parts"]):
        put = Request("PUT", f"part {part['part_number']}", body=content[i * size : (i + 1) * size], url=part["upload_url"])
        answer = yield from exchange(put, calls.retries)
        parts.append({"part_number": part["part_number"], "etag": answer.headers["ETag"]})
    body: dict[str, Any] = {
        **names, "upload_id": begun["upload_id"], "artifact_key": begun["artifact_key"], "parts": parts,
        "deployment_name": name or flow.name, "execution_mode": tier or "medium", "flow_spec": spec,
    }
    if environment is not None:
        body["environment"] = environment
    answer = yield from calls.json("POST", "/artifacts/complete", body)
    return Deployed(**{f.name: answer[f.name] for f in dataclasses.fields(Deployed)})


def _runtime(calls: Calls) -> Call[dict[str, str]]:
    """Return what the server's tasks run on; nothing if it does not tell."""
    backends = yield from calls.json("GET", "/backends")
    return next((b["runtime"] for b in backends["items"] if b.get("runtime")), {})


def _zip(directory: str, platform: str | None, python_version: str | None) -> bytes:
    with tempfile.TemporaryDirectory(prefix="millrace-deploy-") as scratch:
        path = os.path.join(scratch, "artifact.zip")
        pack(directory, path, platform=platform, python_version=python_version)
        with open(path, "rb") as file:
            return file.read()

"""A small S3 server on loopback: enough of the protocol for whole objects, listings and uploads.

It keeps objects in memory, asks for some signature (which it does not verify) and can be told to
take no more than a number of writes, or to be slow to list. (moto's server needs a botocore that
does not go with the pinned python-dateutil.)
"""

from __future__ import annotations

import re
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import gmtime, sleep, strftime, time
from typing import Any
from xml.sax.saxutils import escape

DENIED = "denied"


@dataclass
class Buckets:
    """Objects by bucket and key, each with its time; and the parts of uploads under way."""

    objects: dict[str, dict[str, tuple[bytes, float]]] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    writes_left: int | None = None
    list_delay_s: float = 0.0
    written: list[str] = field(default_factory=list)

    def write(self, bucket: str, key: str, content: bytes) -> bool:
        """False where the server was told to take no more writes."""
        if self.writes_left is not None and not key.endswith("/"):
            if self.writes_left == 0:
                return False
            self.writes_left -= 1
        self.objects[bucket][key] = (content, time())
        self.written.append(key)
        return True


class Handler(BaseHTTPRequestHandler):
    buckets: Buckets
    protocol_version = "HTTP/1.1"
    # Head and body in one packet; two would wait for each other for 40 ms.
    wbufsize = 2**16
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        pass

    def handle_expect_100(self) -> bool:
        """At once, not with the buffer: a client waits a second for it before it sends a body."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        url = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        return bucket, key, dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _xml(self, status: int, body: str) -> None:
        xml = f'<?xml version="1.0" encoding="UTF-8"?>{body}'
        self._say(status, xml.encode(), Content_Type="application/xml")

    def _error(self, status: int, code: str) -> None:
        self._xml(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

    def _refused(self, bucket: str) -> bool:
        signature = self.headers.get("Authorization", "")
        if not signature or DENIED in signature:
            self._error(403, "AccessDenied")
            return True
        if bucket not in self.buckets.objects:
            self._error(404, "NoSuchBucket")
            return True
        return False

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._http_chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", "") or self.headers.get(
            "x-amz-content-sha256", ""
        ).startswith("STREAMING"):
            return _unchunked(body)
        return body

    def _http_chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
        self.rfile.readline()
        return chunk

    def do_HEAD(self) -> None:
        bucket, key, _ = self._asked()
        if self._refused(bucket):
            return
        if not key:
            self._say(200, x_amz_bucket_region="us-east-1")
        elif key not in self.buckets.objects[bucket]:
            self._error(404, "NoSuchKey")
        else:
            content, when = self.buckets.objects[bucket][key]
            self._say(
                200,
                Content_Length=str(len(content)),
                Last_Modified=formatdate(when, usegmt=True),
                ETag=_etag(content),
            )

    def do_GET(self) -> None:
        bucket, key, query = self._asked()
        if self._refused(bucket):
            return
        if not key:
            self._list(bucket, query)
            return
        if key not in self.buckets.objects[bucket]:
            self._error(404, "NoSuchKey")
            return
        content, when = self.buckets.objects[bucket][key]
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        headers = {"Last_Modified": formatdate(when, usegmt=True), "ETag": _etag(content)}
        if asked is None:
            self._say(200, content, **headers)
            return
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        headers["Content_Range"] = f"bytes {first}-{last}/{len(content)}"
        self._say(206, content[first : last + 1], **headers)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        sleep(self.buckets.list_delay_s)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        entries, folders = [], set()
        for key, (content, when) in sorted(self.buckets.objects[bucket].items()):
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            written = strftime("%Y-%m-%dT%H:%M:%S.000Z", gmtime(when))
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                f"<LastModified>{written}</LastModified><ETag>{_etag(content)}</ETag></Contents>"
            )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in sorted(folders)
        )
        self._xml(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><KeyCount>{len(entries) + len(folders)}"
            f"</KeyCount><IsTruncated>false</IsTruncated>{''.join(entries)}{common}"
            "</ListBucketResult>",
        )

    def do_PUT(self) -> None:
        bucket, key, query = self._asked()
        body = self._body()
        if self._refused(bucket):
            return
        if "uploadId" in query:
            self.buckets.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._say(200, ETag=_etag(body))
        elif self.buckets.write(bucket, key, body):
            self._say(200, ETag=_etag(body))
        else:
            self._error(400, "StoppedForATest")

    def do_POST(self) -> None:
        bucket, key, query = self._asked()
        self._body()
        if self._refused(bucket):
            return
        if "uploads" in query:
            name = uuid.uuid4().hex
            self.buckets.parts[name] = {}
            self._xml(
                200,
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket>"
                f"<Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
                "</InitiateMultipartUploadResult>",
            )
            return
        parts = self.buckets.parts.pop(query["uploadId"])
        content = b"".join(parts[number] for number in sorted(parts))
        if not self.buckets.write(bucket, key, content):
            self._error(400, "StoppedForATest")
            return
        self._xml(
            200,
            f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
            f"<ETag>{_etag(content)}</ETag></CompleteMultipartUploadResult>",
        )

    def do_DELETE(self) -> None:
        bucket, key, query = self._asked()
        if self._refused(bucket):
            return
        if "uploadId" in query:
            self.buckets.parts.pop(query["uploadId"], None)
        else:
            self.buckets.objects[bucket].pop(key, None)
        self._say(204)


def _etag(content: bytes) -> str:
    """Of its length and beginning: listings ask for those of gigabytes."""
    return f'"{md5(content[:4096], usedforsecurity=False).hexdigest()}-{len(content)}"'


def _unchunked(body: bytes) -> bytes:
    """The content of a body sent in signed chunks."""
    content, at = bytearray(), 0
    while at < len(body):
        begins = body.index(b"\r\n", at) + 2
        size = int(body[at:begins].partition(b";")[0], 16)
        if size == 0:
            break
        content += body[begins : begins + size]
        at = begins + size + 2
    return bytes(content)


def as_environment(url: str) -> dict[str, str]:
    """The variables with which pyarrow and boto find the server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def s3_server(*names: str, host: str = "127.0.0.1") -> Iterator[tuple[str, Buckets]]:
    """A server with empty buckets `names`; yields its URL and what it holds."""
    buckets = Buckets({name: {} for name in names})
    server = ThreadingHTTPServer((host, 0), type("Bound", (Handler,), {"buckets": buckets}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}", buckets
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A server that plays the Hugging Face hub, as far as tests need it."""

import hashlib
import http.server
import json
import threading
from contextlib import contextmanager

import huggingface_hub
import pytest
from huggingface_hub import constants

from attnviz.models.hub import Hub


class Played(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repos, refused, asked = {}, {}, []

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        path = self.path.partition("?")[0]
        self.asked.append((self.command, path))
        name = "/".join(path.removeprefix("/api/models").strip("/").split("/")[:2])
        if name in self.refused:
            status, error = self.refused[name]
            return self.reply(status, b"{}", {"X-Error-Code": error, "X-Error-Message": error})
        if name not in self.repos:
            return self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        files, commit = self.repos[name], hashlib.sha1(name.encode()).hexdigest()
        if "/resolve/" in path:
            file = path.split("/resolve/")[1].split("/", 1)[1]
            if refusal := self.refused.get(f"{name}/{file}"):
                return self.reply(refusal[0])
            if file not in files:
                return self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
            data, tag = files[file], f'"{hashlib.sha1(files[file]).hexdigest()}"'
            headers = {"ETag": tag, "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            if (span := self.headers.get("Range")) and self.command == "GET":
                start, _, end = span.removeprefix("bytes=").partition("-")
                first, last = int(start or 0), min(int(end or len(data)), len(data) - 1)
                part = {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
                return self.reply(206, data[first : last + 1], headers | part)
            return self.reply(200, data, headers)
        if "/tree/" in path:
            tree = [
                {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": file}
                for file, data in files.items()
            ]
            return self.reply(200, json.dumps(tree).encode())
        info = {"id": name, "modelId": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]}
        return self.reply(200, json.dumps(info | {"private": False, "tags": [], "downloads": 0, "likes": 0}).encode())

    def reply(self, status, body=b"", headers=None):
        self.send_response(status)
        for key, value in (
            {"Content-Length": str(len(body)), "Content-Type": "application/json"} | (headers or {})
        ).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def played_hub(repos, folder):
    """A hub on this computer with these repositories, each its files by name; what it has is kept in a folder."""
    Played.repos, Played.refused, Played.asked = repos, {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        huggingface_hub.utils.close_session()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Played)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Hub(f"http://127.0.0.1:{server.server_port}", folder)
        server.shutdown()
        server.server_close()
        huggingface_hub.utils.close_session()

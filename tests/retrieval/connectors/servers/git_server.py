"""A real Git server on this machine: the smart protocol over HTTP, in a thread."""

from __future__ import annotations

import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import make_wsgi_chain

FIRST_SECOND = 1_700_000_000


class Repository:
    """A bare repository that commits are written to without any work tree."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.repo = Repo.init_bare(str(folder), default_branch=b"main")
        self.commits = 0

    def commit(
        self,
        files: Mapping[bytes | str, bytes | str | tuple[int, bytes]],
        *,
        author: str = "Ada Lovelace <ada@example.org>",
        parents: Iterable[bytes] | None = None,
        branch: str = "main",
    ) -> str:
        """Let a branch hold exactly these files; a pair gives the mode too."""
        root: dict[bytes, Any] = {}
        for name, content in files.items():
            *folders, last = (name.encode() if isinstance(name, str) else name).split(b"/")
            place = root
            for folder in folders:
                place = place.setdefault(folder, {})
            mode, data = content if isinstance(content, tuple) else (0o100644, content)
            place[last] = (mode, data.encode() if isinstance(data, str) else data)
        return self._commit(self._tree(root), author, parents, branch)

    def commit_tree(self, tree: bytes) -> str:
        """Let the branch hold this tree."""
        return self._commit(tree, "Ada Lovelace <ada@example.org>", None, "main")

    def add(self, *objects: Any) -> None:
        """Put objects into the store as they are."""
        for made in objects:
            self.repo.object_store.add_object(made)

    def close(self) -> None:
        self.repo.close()

    def _commit(
        self, tree: bytes, author: str, parents: Iterable[bytes] | None, branch: str
    ) -> str:
        ref = Ref(b"refs/heads/" + branch.encode())
        made = Commit()
        made.tree = ObjectID(tree)
        if parents is None:
            parents = [self.repo.refs[ref]] if ref in self.repo.refs else []
        made.parents = [ObjectID(parent) for parent in parents]
        made.author = made.committer = author.encode()
        made.author_time = made.commit_time = FIRST_SECOND + 60 * self.commits
        made.author_timezone = made.commit_timezone = 0
        made.encoding = b"UTF-8"
        made.message = b"A change\n"
        self.commits += 1
        self.repo.object_store.add_object(made)
        self.repo.refs[ref] = made.id
        return made.id.decode()

    def _tree(self, folder: dict[bytes, Any]) -> bytes:
        tree = Tree()
        for name, content in folder.items():
            if isinstance(content, dict):
                tree.add(name, 0o040000, ObjectID(self._tree(content)))
            elif content[0] == 0o160000:
                tree.add(name, content[0], ObjectID(content[1]))
            else:
                blob = Blob.from_string(content[1])
                self.repo.object_store.add_object(blob)
                tree.add(name, content[0], blob.id)
        self.repo.object_store.add_object(tree)
        return tree.id


class GitServer:
    """Serves repositories by path; may ask for a password, answer with an error or a redirect."""

    def __init__(
        self,
        repositories: Mapping[str, Repository],
        application: Any | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.bytes_sent = 0
        self.password: tuple[str, str] | None = None
        self.answers: dict[str, tuple[str, list[tuple[str, str]], bytes]] = {}
        self._application = application or make_wsgi_chain(
            DictBackend({name: made.repo for name, made in repositories.items()})
        )
        self._server = make_server("127.0.0.1", 0, self._answer, handler_class=_Quiet)
        self.port = self._server.server_port
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        credentials = environ.get("HTTP_AUTHORIZATION", "")
        self.requests.append((environ["REQUEST_METHOD"], path, credentials))
        for start, (status, headers, body) in self.answers.items():
            if path.startswith(start):
                start_response(status, headers)
                return [body]
        if self.password is not None:
            wanted = "Basic " + b64encode(":".join(self.password).encode()).decode()
            if credentials != wanted:
                start_response("401 Unauthorized", [("WWW-Authenticate", "Basic")])
                return [b"who are you?"]
        return self._application(environ, self._counting(start_response))

    def _counting(self, start_response: Any) -> Any:
        def start(status: str, headers: list[tuple[str, str]]) -> Any:
            write = start_response(status, headers)

            def count(data: bytes) -> Any:
                self.bytes_sent += len(data)
                return write(data)

            return count

        return start


class GitProgram:
    """The reference implementation's own server program, as a WSGI application."""

    PROGRAM = Path("/usr/lib/git-core/git-http-backend")

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        done = subprocess.run(
            [self.PROGRAM],
            input=body,
            capture_output=True,
            check=True,
            env={
                "GIT_PROJECT_ROOT": str(self._root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "GIT_CONFIG_KEY_1": "uploadpack.allowFilter",
                "GIT_CONFIG_VALUE_1": "true",
                "GIT_PROTOCOL": environ.get("HTTP_GIT_PROTOCOL", ""),
                "PATH_INFO": environ["PATH_INFO"],
                "QUERY_STRING": environ["QUERY_STRING"],
                "REQUEST_METHOD": environ["REQUEST_METHOD"],
                "CONTENT_TYPE": environ.get("CONTENT_TYPE", ""),
                "CONTENT_LENGTH": str(len(body)),
            },
        )
        head, _, reply = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().splitlines()]
        headers = [(name, value) for name, value in lines if name != "Status"]
        status = next((value for name, value in lines if name == "Status"), "200 OK")
        start_response(status, headers)(reply)
        return []


@contextmanager
def serving(
    repositories: Mapping[str, Repository],
    application: Any | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[GitServer]:
    """A started server, stopped at the end."""
    server = GitServer(repositories, application, tls)
    try:
        yield server
    finally:
        server.stop()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

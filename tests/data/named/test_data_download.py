import gzip
import hashlib
import http.server
import io
import tarfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from trevision.data.load import load
from trevision.data.named import cifar, mnist
from trevision.data.named.download import extract, fetch, fetch_archive
from trevision.data.named.locations import FileSet
from trevision.files import DataError

CONTENT = bytes(range(256)) * 3000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TREVISION_OFFLINE", raising=False)
    monkeypatch.delenv("TREVISION_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


class Handler(http.server.SimpleHTTPRequestHandler):
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path == "/short":
            # Announces more than it sends, as a connection that breaks does.
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])
        elif self.path == "/unsized":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path):
    """A folder, the address that serves it, and the paths asked for."""
    folder = tmp_path / "served"
    folder.mkdir()
    requests: list[str] = []
    handler = type("Recorder", (Handler,), {"requests": requests})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/", requests
        server.shutdown()
        thread.join()


def test_a_download_with_the_right_checksum_arrives_whole(served, tmp_path):
    folder, url, _ = served
    (folder / "file").write_bytes(CONTENT)
    calls = []
    fetch(f"{url}file", tmp_path / "new" / "target", MD5, lambda *call: calls.append(call))
    assert (tmp_path / "new" / "target").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["target"]
    assert calls[0] == (0, len(CONTENT))
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert len(calls) > 2
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_progress_says_when_the_length_is_unknown(served, tmp_path):
    calls = []
    fetch(f"{served[1]}unsized", tmp_path / "target", MD5, lambda *call: calls.append(call))
    assert calls[-1] == (len(CONTENT), None)


@pytest.mark.parametrize(
    ("path", "md5", "complaint"),
    [
        ("file", "0" * 32, f"md5 {MD5} instead of 0000"),
        ("short", MD5, f"ended after 1000 of {len(CONTENT)} bytes"),
        ("absent", MD5, "the server answered 404"),
    ],
)
@pytest.mark.parametrize("before", [None, b"an older copy"])
def test_a_failed_download_leaves_the_folder_as_it_was(served, tmp_path, path, md5, complaint, before):
    folder, url, _ = served
    (folder / "file").write_bytes(CONTENT)
    target = tmp_path / "new" / "target"
    target.parent.mkdir()
    if before is not None:
        target.write_bytes(before)
    with pytest.raises(DataError, match=complaint):
        fetch(f"{url}{path}", target, md5)
    assert list(target.parent.iterdir()) == ([] if before is None else [target])
    assert before is None or target.read_bytes() == before


def test_an_interrupted_download_leaves_nothing(served, tmp_path):
    folder, url, _ = served
    (folder / "file").write_bytes(CONTENT)

    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(f"{url}file", tmp_path / "new" / "target", MD5, interrupt)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.fixture
def refusing_url() -> str:
    """An address at which nobody listens: the port was free a moment ago."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        port = server.server_port
    return f"http://127.0.0.1:{port}/"


def test_a_refused_connection_is_a_data_error_that_leaves_no_folder(refusing_url, tmp_path):
    with pytest.raises(DataError, match="refused"):
        fetch(f"{refusing_url}file", tmp_path / "new" / "target", MD5)
    assert not (tmp_path / "new").exists()


def test_a_target_that_cannot_be_written_is_a_data_error(served, tmp_path):
    folder, url, _ = served
    (folder / "file").write_bytes(CONTENT)
    (tmp_path / "occupied").write_bytes(b"a file where a folder is needed")
    with pytest.raises(DataError, match="occupied"):
        fetch(f"{url}file", tmp_path / "occupied" / "target", MD5)


@pytest.mark.parametrize(("value", "asked"), [("1", False), ("yes", False), ("0", True), ("", True)])
def test_offline_makes_no_attempt(served, tmp_path, monkeypatch, value, asked):
    folder, url, requests = served
    (folder / "file").write_bytes(CONTENT)
    monkeypatch.setenv("TREVISION_OFFLINE", value)
    if asked:
        fetch(f"{url}file", tmp_path / "target", MD5)
    else:
        with pytest.raises(DataError, match="TREVISION_OFFLINE is set"):
            fetch(f"{url}file", tmp_path / "target", MD5)
    assert requests == (["/file"] if asked else [])


def tar_gz(members: dict[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        if link:
            entry = tarfile.TarInfo(link[0])
            entry.type, entry.linkname = tarfile.SYMTYPE, link[1]
            tar.addfile(entry)
    return sink.getvalue()


def test_an_archive_is_unpacked_and_not_kept(served, tmp_path):
    folder, url, _ = served
    archive = tar_gz({"inner/a": b"1", "inner/b": b"2", "other": b"3"})
    (folder / "x.tar.gz").write_bytes(archive)
    fetch_archive(f"{url}x.tar.gz", hashlib.md5(archive).hexdigest(), "inner", tmp_path / "cache" / "set")
    assert {path.name: path.read_bytes() for path in (tmp_path / "cache" / "set").iterdir()} == {
        "a": b"1",
        "b": b"2",
    }
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["set"]


def test_unpacking_completes_an_incomplete_copy(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(tar_gz({"inner/a": b"1", "inner/b": b"2"}))
    (tmp_path / "cache" / "set").mkdir(parents=True)
    (tmp_path / "cache" / "set" / "a").write_bytes(b"half")
    extract(tmp_path / "x.tar.gz", "inner", tmp_path / "cache" / "set")
    assert (tmp_path / "cache" / "set" / "a").read_bytes() == b"1"
    assert (tmp_path / "cache" / "set" / "b").read_bytes() == b"2"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["set"]


@pytest.mark.parametrize(
    "archive",
    [
        tar_gz({"inner/a": b"1", "../escaped": b"!"}),
        tar_gz({"inner/a": b"1"}, link=("inner/link", "../../..")),
        tar_gz({"elsewhere/a": b"1"}),
        tar_gz({"inner/a": CONTENT})[:-50],
        b"no archive at all",
    ],
    ids=["path", "link", "folder", "truncated", "rubbish"],
)
def test_an_unsafe_or_broken_archive_leaves_nothing(tmp_path, archive):
    (tmp_path / "x.tar.gz").write_bytes(archive)
    (tmp_path / "deep" / "cache").mkdir(parents=True)
    with pytest.raises(DataError, match=r"x\.tar\.gz: "):
        extract(tmp_path / "x.tar.gz", "inner", tmp_path / "deep" / "cache" / "set")
    assert list((tmp_path / "deep" / "cache").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "x.tar.gz"]


def mnist_files() -> dict[str, bytes]:
    files = {}
    for part, count in (("train", 3), ("t10k", 2)):
        images = (
            b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 2, 2)) + bytes(4 * count)
        )
        labels = b"\x00\x00\x08\x01" + count.to_bytes(4, "big") + bytes([7] * count)
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(images)
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(labels)
    return files


@pytest.fixture
def served_mnist(served, monkeypatch):
    """MNIST's name, with a source on this machine and the checksums of its files."""
    folder, url, requests = served
    files = mnist_files()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    md5 = tuple(hashlib.md5(content).hexdigest() for content in files.values())
    monkeypatch.setattr(mnist, "_MNIST", replace(mnist._MNIST, url=url, md5=md5))
    return folder, requests


def test_a_named_set_is_downloaded_into_the_cache_once(served_mnist, tmp_path):
    _, requests = served_mnist
    assert load("mnist", tmp_path / "empty").train_y.tolist() == [7, 7, 7]
    assert len(requests) == 4
    assert len(list((tmp_path / "xdg" / "trevision" / "mnist").iterdir())) == 4
    assert load("mnist").test_y.tolist() == [7, 7]
    assert len(requests) == 4


def test_a_broken_off_set_goes_on_where_it_stopped(served_mnist, tmp_path):
    folder, requests = served_mnist
    last = folder / "t10k-labels-idx1-ubyte.gz"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(DataError, match=r"^mnist: t10k-labels-idx1-ubyte\(.gz\) .*the server answered 404"):
        load("mnist")
    last.write_bytes(content)
    requests.clear()
    assert load("mnist").test_y.tolist() == [7, 7]
    assert requests == ["/t10k-labels-idx1-ubyte.gz"]


def test_cifar_is_downloaded_as_an_archive(served, tmp_path, monkeypatch):
    folder, url, _ = served
    record = bytes([4, 42]) + bytes(3072)
    archive = tar_gz({"cifar-100-binary/train.bin": record * 3, "cifar-100-binary/test.bin": record})
    (folder / "cifar.tar.gz").write_bytes(archive)
    md5 = hashlib.md5(archive).hexdigest()
    monkeypatch.setattr(cifar, "_URL", url)
    monkeypatch.setattr(cifar, "_CIFAR100", replace(cifar._CIFAR100, archive="cifar.tar.gz", md5=md5))
    dataset = load("cifar100")
    assert dataset.train_y.tolist() == [42, 42, 42]
    assert np.array_equal(dataset.test_x.numpy(), np.zeros((1, 3, 32, 32), np.uint8))
    assert [path.name for path in (tmp_path / "xdg" / "trevision").iterdir()] == ["cifar-100-binary"]


def test_every_official_file_has_a_checksum_of_its_own():
    sources = [mnist._MNIST, mnist._FASHION, cifar._CIFAR10, cifar._CIFAR100]
    checksums = [
        md5 for source in sources for md5 in ([source.md5] if isinstance(source.md5, str) else source.md5)
    ]
    assert len(set(checksums)) == len(checksums) == 10
    assert all(len(md5) == 32 and set(md5) <= set("0123456789abcdef") for md5 in checksums)
    for source in sources:
        assert isinstance(source.files, FileSet)
        assert not any(Path(folder).is_absolute() for folder in source.files.folders)

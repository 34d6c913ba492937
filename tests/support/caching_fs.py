"""A network file system for tests: what two hosts see of one folder through NFS's caches, by FUSE.

Each mount is a host. As a Linux NFS client it remembers for a while that a name does not exist
(until the host makes it itself), what a name leads to, and the attributes of files. ``open`` asks
the server (close-to-open consistency): it brings the attributes up to date, and fails with ESTALE
where the file has been deleted or replaced; the kernel then looks the name up again, as it does for
NFS. Data and the lists of folders are not cached.

    python caching_fs.py FOLDER MOUNT_POINT SECONDS      (as root; ends at SIGTERM)
"""

# Paths are bytes below /proc/self/fd.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH116, PTH208, PTH211
from __future__ import annotations

import errno
import os
import stat
import sys
from collections import defaultdict
from typing import Any

import pyfuse3
import trio


class CachingFs(pyfuse3.Operations):
    """A folder, passed through. An inode is known by an O_PATH descriptor, as the server knows one
    by its file handle.
    """

    supports_dot_lookup = False

    def __init__(self, folder: str, cached_s: float) -> None:
        super().__init__()
        self.cached_s = cached_s
        root = os.open(folder, os.O_PATH)
        self.handles = {pyfuse3.ROOT_INODE: root}
        self.known = {_key(os.fstat(root)): pyfuse3.ROOT_INODE}
        self.lookups: defaultdict[int, int] = defaultdict(int)
        self.next = pyfuse3.ROOT_INODE + 1

    def _path(self, inode: int, name: bytes = b"") -> bytes:
        """A path that leads to the inode even if it has been renamed or deleted."""
        path = b"/proc/self/fd/%d" % self.handles[inode]
        return path + b"/" + name if name else path

    def _attributes(self, inode: int) -> pyfuse3.EntryAttributes:
        found = os.fstat(self.handles[inode])
        entry = pyfuse3.EntryAttributes()
        for name in (
            "st_mode",
            "st_nlink",
            "st_uid",
            "st_gid",
            "st_rdev",
            "st_size",
            "st_atime_ns",
            "st_mtime_ns",
        ):
            setattr(entry, name, getattr(found, name))
        entry.st_ctime_ns, entry.st_blksize, entry.st_blocks = (
            found.st_ctime_ns,
            4096,
            found.st_blocks,
        )
        entry.st_ino = inode
        entry.generation = 0
        entry.entry_timeout = entry.attr_timeout = self.cached_s
        return entry

    def _entry(self, parent: int, name: bytes) -> pyfuse3.EntryAttributes:
        try:
            handle = os.open(self._path(parent, name), os.O_PATH | os.O_NOFOLLOW)
        except FileNotFoundError:
            nothing = pyfuse3.EntryAttributes()
            nothing.st_ino = 0  # there is no such name, and for so long nobody asks again
            nothing.entry_timeout = self.cached_s
            return nothing
        key = _key(os.fstat(handle))
        if key in self.known:
            os.close(handle)
            inode = self.known[key]
        else:
            inode, self.next = self.next, self.next + 1
            self.handles[inode], self.known[key] = handle, inode
        self.lookups[inode] += 1
        return self._attributes(inode)

    async def lookup(self, parent: int, name: bytes, ctx: object) -> pyfuse3.EntryAttributes:
        return _tried(lambda: self._entry(parent, name))

    async def forget(self, inode_list: Any) -> None:
        for inode, count in inode_list:
            self.lookups[inode] -= count
            if not self.lookups[inode] and inode != pyfuse3.ROOT_INODE:
                handle = self.handles.pop(inode)
                self.known = {key: other for key, other in self.known.items() if other != inode}
                os.close(handle)
                del self.lookups[inode]

    async def getattr(self, inode: int, ctx: object) -> pyfuse3.EntryAttributes:
        return self._attributes(inode)

    async def setattr(
        self, inode: int, attr: Any, fields: Any, fh: int | None, ctx: object
    ) -> pyfuse3.EntryAttributes:
        def change() -> pyfuse3.EntryAttributes:
            path = self._path(inode)
            if fields.update_size:
                os.truncate(path if fh is None else fh, attr.st_size)
            if fields.update_mode:
                os.chmod(path, stat.S_IMODE(attr.st_mode))
            if fields.update_uid or fields.update_gid:
                os.chown(
                    path,
                    attr.st_uid if fields.update_uid else -1,
                    attr.st_gid if fields.update_gid else -1,
                )
            if fields.update_mtime:
                os.utime(path, ns=(os.stat(path).st_atime_ns, attr.st_mtime_ns))
            return self._attributes(inode)

        return _tried(change)

    async def open(self, inode: int, flags: int, ctx: object) -> pyfuse3.FileInfo:
        if os.fstat(self.handles[inode]).st_nlink == 0:
            raise pyfuse3.FUSEError(errno.ESTALE)
        handle = _tried(
            lambda: os.open(self._path(inode), flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
        )
        pyfuse3.invalidate_inode(inode, attr_only=True)
        return pyfuse3.FileInfo(fh=handle, direct_io=True)

    async def create(
        self, parent: int, name: bytes, mode: int, flags: int, ctx: object
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        handle = _tried(lambda: os.open(self._path(parent, name), flags | os.O_CREAT, mode))
        return pyfuse3.FileInfo(fh=handle, direct_io=True), self._entry(parent, name)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        return _tried(lambda: os.pread(fh, size, off))

    async def write(self, fh: int, off: int, buf: bytes) -> int:
        return _tried(lambda: os.pwrite(fh, buf, off))

    async def flush(self, fh: int) -> None:
        raise pyfuse3.FUSEError(
            errno.ENOSYS
        )  # as on NFS, a close asks the server only if there is new data

    async def fsync(self, fh: int, datasync: bool) -> None: ...

    async def fsyncdir(self, fh: int, datasync: bool) -> None: ...

    async def release(self, fh: int) -> None:
        os.close(fh)

    async def mknod(
        self, parent: int, name: bytes, mode: int, rdev: int, ctx: object
    ) -> pyfuse3.EntryAttributes:
        _tried(lambda: os.mknod(self._path(parent, name), mode, rdev))
        return self._entry(parent, name)

    async def mkdir(
        self, parent: int, name: bytes, mode: int, ctx: object
    ) -> pyfuse3.EntryAttributes:
        _tried(lambda: os.mkdir(self._path(parent, name), mode))
        return self._entry(parent, name)

    async def unlink(self, parent: int, name: bytes, ctx: object) -> None:
        _tried(lambda: os.unlink(self._path(parent, name)))

    async def rmdir(self, parent: int, name: bytes, ctx: object) -> None:
        _tried(lambda: os.rmdir(self._path(parent, name)))

    async def symlink(
        self, parent: int, name: bytes, target: bytes, ctx: object
    ) -> pyfuse3.EntryAttributes:
        _tried(lambda: os.symlink(target, self._path(parent, name)))
        return self._entry(parent, name)

    async def readlink(self, inode: int, ctx: object) -> bytes:
        return _tried(lambda: os.readlink(b"", dir_fd=self.handles[inode]))

    async def link(
        self, inode: int, parent: int, name: bytes, ctx: object
    ) -> pyfuse3.EntryAttributes:
        _tried(lambda: os.link(self._path(inode), self._path(parent, name), follow_symlinks=True))
        return self._entry(parent, name)

    async def rename(
        self, parent: int, old: bytes, new_parent: int, new: bytes, flags: int, ctx: object
    ) -> None:
        _tried(lambda: os.rename(self._path(parent, old), self._path(new_parent, new)))

    async def opendir(self, inode: int, ctx: object) -> int:
        return inode

    async def readdir(self, fh: int, start_id: int, token: Any) -> None:
        for number, name in enumerate(sorted(os.listdir(self._path(fh))), 1):
            if number <= start_id:
                continue
            entry = self._entry(fh, os.fsencode(name))
            if entry.st_ino and not pyfuse3.readdir_reply(token, os.fsencode(name), entry, number):
                await self.forget([(entry.st_ino, 1)])
                return

    async def statfs(self, ctx: object) -> pyfuse3.StatvfsData:
        found, reply = os.statvfs(self._path(pyfuse3.ROOT_INODE)), pyfuse3.StatvfsData()
        for name in (
            "f_bsize",
            "f_frsize",
            "f_blocks",
            "f_bfree",
            "f_bavail",
            "f_files",
            "f_ffree",
            "f_favail",
        ):
            setattr(reply, name, getattr(found, name))
        return reply

    async def access(self, inode: int, mode: int, ctx: object) -> bool:
        return True


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _tried(act: Any) -> Any:
    try:
        return act()
    except OSError as error:
        raise pyfuse3.FUSEError(error.errno or errno.EIO) from None


def main(folder: str, mount_point: str, cached_s: float) -> None:
    """Serve until the mount ends."""
    os.umask(0)
    options = set(pyfuse3.default_options) | {
        "fsname=caching",
        "allow_other",
        "default_permissions",
    }
    pyfuse3.init(CachingFs(folder, cached_s), mount_point, options)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

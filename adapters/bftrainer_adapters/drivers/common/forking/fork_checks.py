"""Whether an interpreter may be forked, and from which folders it may import before a worker exists."""

import fcntl
import importlib
import importlib.machinery
import os
import signal
import sys

# S108 warns of files in shared folders. Nothing is opened here: the names of open files are compared with these.
_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/shm/")  # noqa: S108 - nothing is opened
_INSTALLED = ("site-packages", "dist-packages")


def own_library():  # type: () -> tuple[str, ...]
    """The standard library's folders."""
    return tuple({os.path.dirname(os.path.abspath(os.__file__)), os.path.realpath(os.path.dirname(os.__file__))})


def is_installed(path, library):  # type: (str, tuple[str, ...]) -> bool
    """Whether a file is of the standard library or was installed: not the user's own, which changes while the server lives."""
    path = os.path.abspath(path)
    return any(part in _INSTALLED for part in path.split(os.sep)) or path.startswith(
        tuple(folder + os.sep for folder in library)
    )


def import_installed(name):  # type: (str) -> None
    """Import a module if it was installed. If it is broken, the script fails at the same import with its own message."""
    try:
        spec = importlib.machinery.PathFinder.find_spec(name.partition(".")[0])
        if spec is not None and spec.origin and is_installed(spec.origin, own_library()):
            importlib.import_module(name)
    except Exception as error:
        sys.stderr.write("bftrainer: fork server: {}: {!r}\n".format(name, error))


class Checks:
    """What is compared with the state before the imports."""

    def __init__(self):  # type: () -> None
        self.modules = set(sys.modules)
        self.descriptors = _descriptors()
        self.files = {}  # type: dict[str, tuple[int, int]]

    def problem(self, memory_bytes):  # type: (int) -> str
        """Why it must not be forked, or nothing; the first time, the modules' files are noted."""
        if not self.files:
            if _read("/proc/self/task/{}/children".format(os.getpid())).split():
                return "an import has started a process"
            library = own_library()
            paths = {
                name: getattr(sys.modules[name], "__file__", None) or ""
                for name in set(sys.modules) - self.modules - {"__mp_main__"}
            }
            for name, path in paths.items():
                if os.path.isabs(path) and not is_installed(path, library):
                    return "{} was imported, which is not installed: {}".format(name, path)
            self.files = {path: state(path) for path in paths.values() if os.path.isabs(path)}
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return "an import has initialized CUDA"
        opened = [place for number, place in _descriptors().items() if number not in self.descriptors and _binds(place)]
        if opened:
            return "an import has opened " + ", ".join(sorted(opened))
        used = int(_read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if used > memory_bytes:
            return "it needs {} MB, the limit is {} MB".format(used // 1000000, memory_bytes // 1000000)
        return threads()


def threads():  # type: () -> str
    """Whether threads would be missing in a forked process.

    Libraries such as OpenBLAS end their threads before a fork and start them again when they compute (pthread_atfork): so
    what is left after a fork counts.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    count = len(os.listdir("/proc/self/task"))
    return "" if count == 1 else "imports have started {} threads".format(count - 1)


def _descriptors():  # type: () -> dict[str, str]
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink("/proc/self/fd/" + number)
        except OSError:
            pass  # the listing's own
    return found


def _binds(place):  # type: (str) -> bool
    """Whether a descriptor is more than a regular file: two processes cannot share a socket, or a GPU's context."""
    device = place.startswith("/dev/") and not place.startswith(_HARMLESS_DEVICES)
    return device or not place.startswith("/")


def _read(path):  # type: (str) -> str
    with open(path) as file:
        return file.read()


def state(path):  # type: (str) -> tuple[int, int]
    """Time and size of a file; zeros without one."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def have_changed(files):  # type: (dict[str, tuple[int, int]]) -> bool
    """Whether a file is not what was imported."""
    return any(state(path) != before for path, before in files.items())


def shadowed(words, cwd):  # type: (list[str], str) -> str
    """Whether the script's folder has a module of a name that was imported from elsewhere: then it would have been first."""
    folder = own_folder(words, cwd)
    if not os.path.isdir(folder):
        return ""
    tops = {name.partition(".")[0] for name in sys.modules}
    for entry in sorted(os.listdir(folder)):
        name, _, kind = entry.partition(".")
        there = kind.endswith(("py", "pyc", "so")) or os.path.exists(os.path.join(folder, entry, "__init__.py"))
        if name in tops and there:
            origin = getattr(sys.modules.get(name), "__file__", None)
            if origin and os.path.dirname(os.path.abspath(origin)) not in (folder, os.path.join(folder, name)):
                return "the script's folder has a module of its own that is called " + name
    return ""


def own_folder(words, cwd):  # type: (list[str], str) -> str
    """What Python would put first on ``sys.path``."""
    rest = words[1:] if os.path.basename(words[0]) == "warm_start.py" else words
    return cwd if rest[0] == "-m" else os.path.dirname(os.path.realpath(os.path.join(cwd, rest[0])))


def make_room(folder, own, most):  # type: (str, str, int) -> None
    """Have the fragment's longest unused servers end, and remove what ended ones have left on this node."""
    served = [found for found in clean(folder) if found[1] != own]
    for _, _, pid in sorted(served)[: max(0, len(served) + 1 - most)]:
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            pass  # it has just ended
    for other in os.listdir(os.path.dirname(folder)):
        place = os.path.join(os.path.dirname(folder), other)
        if place != folder:
            remove_if_unused(place)


def clean(folder):  # type: (str) -> list[tuple[tuple[int, int], str, int]]
    """Remove the files of servers that have ended; last use, socket and pid of the others."""
    served = []
    for name in os.listdir(folder):
        path, is_lock = os.path.join(folder, name[: -len(".lock")]), name.endswith(".lock")
        if not is_lock:
            continue
        try:
            lock = os.open(path + ".lock", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # it has just ended
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(lock, path + ".lock"):
                remove(path)
        except OSError:
            pid = os.pread(lock, 20, 0)
            if pid:
                served.append((state(path), path, int(pid)))
        os.close(lock)
    return served


def is_at(descriptor, path):  # type: (int, str) -> bool
    """Whether the open file is the one at ``path``: another process may have replaced it before it was locked."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def remove(path):  # type: (str) -> None
    """Remove a server's files."""
    for left in (path, path + ".lock"):
        try:
            os.unlink(left)
        except OSError:
            pass  # removed by another


def remove_if_unused(folder):  # type: (str) -> None
    """Remove a fragment's folder if no server is left there."""
    try:
        if not clean(folder):
            os.rmdir(folder)
    except OSError:
        pass  # another one's work

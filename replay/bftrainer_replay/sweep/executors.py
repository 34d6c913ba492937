"""Executors of a sweep: the words of ``--workers`` as objects of :mod:`concurrent.futures`.

A task is named by its content and its result is a file, so any executor will do. ``mpi`` is
mpi4py.futures: rank 0 distributes the work, the others compute. ``dask:ADDRESS`` is a running
cluster of Dask. ``MODULE:NAME`` is an executor, or a function that returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bftrainer.errors import UserError
from bftrainer.plugins import error_of_user, import_for_user

MPI, DASK = "mpi", "dask:"
_CONNECT_S = 10


@contextmanager
def opened_executor(workers: str) -> Iterator[Executor | None]:
    """Open the executor that ``workers`` names, until the end of the block.

    The names are ``mpi``, ``dask:ADDRESS`` and ``module:name``. Yields None if this process is a
    rank of MPI that has computed for another one, and has no more to do. Raises ``UserError`` for
    one that is not installed, not running or not an executor.
    """
    if workers == MPI:
        with _mpi_executor() as executor:
            yield executor
    elif workers.startswith(DASK):
        with _dask_executor(workers.removeprefix(DASK)) as executor:
            yield executor
    else:
        with _user_executor(workers) as executor:
            yield executor


@contextmanager
def _mpi_executor() -> Iterator[Executor | None]:
    """Open an executor on the ranks of MPI.

    Yields it in the first rank; in every other rank None, once that has computed what the first one
    asked for. Raises ``UserError`` without MPI or with one rank only.
    """
    try:
        world: Any = import_module("mpi4py.MPI").COMM_WORLD
        futures: Any = import_module("mpi4py.futures")
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        reason = " ".join(str(error).split())
        raise UserError(
            f"--workers mpi: mpi4py cannot be used ({reason:.120}); install it with `pip install "
            "'bftrainer[mpi]'`, and an MPI such as openmpi"
        ) from error
    if world.Get_size() == 1:
        raise UserError(
            "--workers mpi: there is one rank only; start the command with `mpiexec -n 9`"
        )
    with futures.MPICommExecutor(world, root=0) as executor:
        try:
            yield executor
        except BaseException:
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _dask_executor(address: str) -> Iterator[Executor]:
    """Open an executor on the workers of the Dask scheduler at this address."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise UserError(
            f"--workers dask:{address}: {error}; install it with `pip install 'bftrainer[dask]'`"
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"--workers dask:{address}: no scheduler answers ({error}); expected an address such "
            "as dask:tcp://host:8786"
        ) from error
    with client:
        yield client.get_executor(pure=False)


@contextmanager
def _user_executor(name: str) -> Iterator[Executor]:
    """Open the executor that the user names as ``module:name``, or that a function of that name
    returns.

    Raises ``UserError`` for anything else.
    """
    loaded = _imported_object(name)
    executor = loaded if isinstance(loaded, Executor) else _call_builder(loaded, name)
    if not isinstance(executor, Executor):
        raise UserError(
            f"--workers {name}: gives a {type(executor).__name__}, expected a "
            "concurrent.futures.Executor"
        )
    with executor:
        yield executor


def _call_builder(build: Callable[[], Any], name: str) -> Any:
    """Call the user's function ``name``. Raises ``UserError`` if it raises anything."""
    try:
        return build()
    except Exception as error:
        raise UserError(f"--workers {name}: cannot be called ({error_of_user(error)})") from error


def _imported_object(name: str) -> Any:
    """Return the object that ``module:name`` names: an executor, or a callable.

    A module in the user's folder is searched for last. Raises ``UserError`` for anything else.
    """
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        raise UserError(
            f"--workers {name}: expected a number, mpi, dask:ADDRESS or MODULE:EXECUTOR"
        )
    module = import_for_user(module_name, f"--workers {name}")
    loaded: Executor | Callable[[], Any] | None = getattr(module, attribute, None)
    if not (isinstance(loaded, Executor) or callable(loaded)):
        raise UserError(f"--workers {name}: {module_name!r} has no executor {attribute!r}")
    return loaded

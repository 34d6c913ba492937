"""A Spack recipe, for a repository of the site's own: REPO/packages/bftrainer/package.py (``spack
repo create``).

Tried: a test executes it against a stand-in of Spack's directives, and compares it with
pyproject.toml. Not tried: Spack itself (1.0 or newer), neither concretizing nor building. The
repository ``spack-packages`` had no ``py-structlog`` when this was written; ``spack create
--template python py-structlog`` makes one. There is no released archive yet, so the source is a
checkout: ``spack develop --path /path/to/checkout bftrainer@0.1.0`` in an environment.
"""

from spack.package import default_args, depends_on, license, variant, version
from spack_repo.builtin.build_systems.python import PythonPackage


class Bftrainer(PythonPackage):
    """Train neural networks on the supercomputer nodes that the batch scheduler cannot fill."""

    homepage = "https://arxiv.org/abs/2106.12091"

    license("Apache-2.0")

    version("0.1.0")

    variant("dask", default=False, description="Sweeps of replays on a Dask cluster")
    variant("metrics", default=False, description="GET /metrics of the pilot")
    variant("mpi", default=False, description="mpi4py for sweeps of replays and training scripts")
    variant("policy", default=False, description="The conformance suite for policies")
    variant("top", default=False, description="The screen of bftrainer top")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-click@8.3.3:")
        depends_on("py-h11@0.16:")
        depends_on("py-highspy@1.7.1:1.8,1.10:1.13,1.15:")
        depends_on("py-jinja2@3.1.6:")
        depends_on("py-matplotlib@3.7:")
        depends_on("py-numpy@1.24:")
        depends_on("py-pydantic@2.7:")
        depends_on("py-rich@13.3.3:")
        depends_on("py-structlog@24.1:")

        depends_on("py-distributed@2025.1:", when="+dask")
        depends_on("py-prometheus-client@0.20:", when="+metrics")
        depends_on("py-mpi4py@4.1:", when="+mpi")
        depends_on("py-pytest@8.1:", when="+policy")
        depends_on("py-textual@6:", when="+top")

"""What commands know of the launchers ``horovod`` and ``horovodrun``."""

from bftrainer.plugin_traits import LauncherTraits, PackageProbe, Permission, ScriptClue

_PROBE = """
import json, torch, horovod, horovod.torch
version = horovod.__version__
if horovod.torch.gloo_built():
    print(json.dumps([version + " with gloo, torch " + torch.__version__, "", ""]))
else:
    problem = version + " was built without gloo, which elastic runs need"
    remedy = "HOROVOD_WITH_GLOO=1 pip install --no-cache-dir --force-reinstall horovod"
    print(json.dumps(["", problem, remedy]))
"""
_STEP_HINT = (
    "the state that progress.track returns must have the attribute step "
    "(TorchState(..., step=0, samples=0)); add 1 to it before each state.commit()"
)
LAUNCHERS = {
    "horovod": LauncherTraits(
        starts_scripts_for=("horovod", "restart"),
        clue=ScriptClue(r"^\s*(?:import|from) (horovod)\b|\b(hvd\.init)\(", rank=20),
        starts_single_workers=True,
        step_hint=_STEP_HINT,
        probe=PackageProbe(
            "horovod",
            _PROBE,
            "docs/horovod.md shows how to build it; only launchers horovod and horovodrun need it",
        ),
    ),
    "horovodrun": LauncherTraits(
        starts_scripts_for=("horovod",),
        group_programs=("horovodrun",),
        starts_single_workers=True,
        permission=Permission(
            "allow_stock_horovodrun",
            "lets any user who can reach its port run code",
            "horovod",
        ),
        on_whole_nodes_only="horovod",
        step_hint=_STEP_HINT,
    ),
}

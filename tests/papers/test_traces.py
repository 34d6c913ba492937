"""Trainers from traces: every number by hand on small examples, then the real files."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from support.data import data_file
from support.trace_examples import GAVEL, PHILLY, POLLUX, SIA, sia

from bftrainer.errors import InputFileError, UnknownNameError, UserError
from bftrainer_papers.traces.arrivals import read_trace
from bftrainer_papers.traces.profiles import Profile, ProfilePoint, read_profiles
from bftrainer_papers.traces.scaling import CurveShape, is_concave, scaling_of
from bftrainer_papers.traces.trainers import TraceSelection, trainers_of, write_curves
from bftrainer_replay.logs.event_log import parse_time
from bftrainer_replay.workload.curves import find_curve, read_curves
from bftrainer_replay.workload.workload import read_workload, write_workload


def written(folder: Path, text: str, name: str = "file") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_philly(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, PHILLY))
    assert (trace.title, trace.has_dates, trace.tally.read) == ("a Philly trace", True, 4)
    assert [(job.id, job.gpus, job.run_s, job.model) for job in trace.jobs] == [
        ("line3", 8, 1800.0, None),
        ("line5", 2, 0.0, None),
        ("line2", 1, 3600.0, None),
        ("line4", 4, 60.0, None),
    ]
    assert trace.jobs[0].at_s == parse_time("2017-10-09T06:00:00")


def test_pollux_by_itself_and_in_an_archive(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, POLLUX))
    assert [(job.id, job.at_s, job.gpus, job.run_s, job.model) for job in trace.jobs][:1] == [
        ("cifar10-0", 107.0, 6, None, "cifar10")
    ]
    assert not trace.has_dates
    archive = tmp_path / "pollux.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("w-1.csv", "w-2.csv"):
            tar.add(written(tmp_path, POLLUX, name), name)
    assert read_trace(archive, "w-2.csv").jobs == trace.jobs
    with pytest.raises(
        InputFileError, match=r"holds 2 files, specify one with --member: w-1\.csv, w-2\.csv"
    ):
        read_trace(archive)
    with pytest.raises(InputFileError, match=r"0 of them end in 'w-3\.csv'"):
        read_trace(archive, "w-3.csv")


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ("3600.0,1,", "3600.0,1.5,", 2, "num_gpus is 1.5, expected a whole number"),
        ("3600.0,1,", "3600.0,0,", 2, "num_gpus is 0, expected a finite number of 1 or more"),
        ("1800.0,8", "nan,8", 3, "duration is nan, expected a finite number of 0 or more"),
        ("1800.0,8", ",8", 3, "duration is '', expected a number"),
        ("2017-10-10 06:00:00", "10/10/2017", 4, "timestamp is '10/10/2017', expected a time like"),
        ("2017-10-10 06:00:00,60.0", "2017-10-10 06:00:00", 4, "has 4 fields, expected 5"),
        ("60.0,4,", "60.0,1000001,", 4, "num_gpus is 1,000,001, expected at most 1,000,000"),
    ],
)
def test_a_bad_line_is_refused_with_its_place_or_counted(
    tmp_path: Path, old: str, new: str, line: int, complaint: str
) -> None:
    path = written(tmp_path, PHILLY.replace(old, new))
    with pytest.raises(InputFileError) as caught:
        read_trace(path)
    assert caught.value.where == f"{path}:{line}"
    assert complaint in str(caught.value)
    trace = read_trace(path, skip_bad=True)
    assert (trace.tally.read, trace.tally.skipped, len(trace.jobs)) == (4, 1, 3)
    assert f"{path}:{line}: " in trace.tally.remarks(trace.title)[1]


def test_what_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(
        InputFileError,
        match=r":1: columns are 'a,b', expected the columns of a trace: timestamp,duration,num",
    ):
        read_trace(written(tmp_path, "a,b\n1,2\n"))
    with pytest.raises(InputFileError, match="has no jobs"):
        read_trace(written(tmp_path, PHILLY.splitlines()[0] + "\n"))
    with pytest.raises(InputFileError, match=r":3: duplicate job 'cifar10-0'"):
        read_trace(written(tmp_path, POLLUX.replace("bert-1", "cifar10-0")))


def test_gavel_counts_batches(tmp_path: Path) -> None:
    profiles = read_profiles(written(tmp_path, GAVEL))
    assert (profiles.title, profiles.read, profiles.failed) == ("Gavel's table", 6, 1)
    _, resnet = profiles.of("v100")
    assert (resnet.model, resnet.hardware) == ("ResNet-50-bs64", "v100")
    assert [(p.gpus, p.samples_per_s) for p in resnet.points] == [
        (1, 256.0),
        (2, 448.0),
        (8, 1280.0),
    ]
    with pytest.raises(
        InputFileError,
        match=r"several types of hardware; specify one with --hardware \(k80, v100\)",
    ):
        profiles.of(None)
    with pytest.raises(UnknownNameError, match=r"unknown hardware 'v10', did you mean 'v100'"):
        profiles.of("v10")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            '"null": 7.0',
            '"null": "fast"',
            r"\(batch size 64\)', 2\): null is 'fast', expected steps per second",
        ),
        ('"null": 7.0', '"null": NaN', "null is nan"),
        ('"null": 7.0', '"null": -1', "null is -1"),
        ('{"null": 7.0}', "7.0", "is not an entry of Gavel's table"),
        ("('A3C', 1)\": {", 'A3C on 1": {', "A3C on 1: is not an entry of Gavel's table"),
        ('"k80": {"', '"k80": ["', r":9: is not JSON"),
        ("64)', 2)", "64)', 1)", "duplicate name in one table"),
    ],
)
def test_a_bad_table_of_gavels_is_refused(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(InputFileError, match=complaint):
        read_profiles(written(tmp_path, GAVEL.replace(old, new)))


def test_sia_takes_one_batch_and_the_placement_nearest_to_whole_nodes(tmp_path: Path) -> None:
    profiles = read_profiles(sia(tmp_path))
    assert profiles.read == 11 + 6 + 3 + 1
    bert, cifar = profiles.of("aws")
    assert (bert.model, cifar.model) == ("bert", "cifar10")
    found = scaling_of(cifar, 4)
    assert found.batch == 10  # six counts like batch 5, and larger; batch 20 only on two
    # 2 GPUs on one node, not on two; 4 on one, not on two; 8 on two nodes, not on eight.
    assert found.by_gpu == ((1, 100.0), (2, 160.0), (3, 300.0), (4, 400.0), (8, 400.0), (16, 640.0))
    assert (found.curve.nodes, found.curve.per_s) == ((1, 2, 4), (400.0, 400.0, 640.0))
    assert (found.name, found.measured_nodes, found.interpolated) == ("cifar10-aws", 4, 0)
    assert [found.rate(gpus) for gpus in (1, 3, 6, 12, 64)] == [100, 300, 400, 520, 640]
    six = scaling_of(cifar, 6)
    assert (six.curve.nodes, six.curve.per_s, six.interpolated) == ((1, 2), (400.0, 520.0), 2)
    assert scaling_of(bert, 8) is None


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "sia/bert/placements-aws.csv",
            "placement,local_bsz,step_time\n1,4,0\n",
            r"aws\.csv:2: step_time is 0",
        ),
        (
            "sia/bert/placements-aws.csv",
            "placement,local_bsz,step_time\n10,4,1\n",
            "placement is '10', expected a digit per",
        ),
        (
            "sia/bert/placements-aws.csv",
            "placement,local_bsz\n1,4\n",
            "column step_time is missing",
        ),
        (
            "sia/bert/placements-aws.csv",
            "placement,local_bsz,step_time\n1,4\n",
            r"aws\.csv:2: has 2 fields",
        ),
        (
            "sia/bert/placements-aws.csv",
            'placement,local_bsz,step_time\n1,4,"1\n',
            r"aws\.csv:2: step_time is",
        ),
        (
            "sia/bert/placements-aws.csv",
            "placement,local_bsz,step_time\n1,4,1e-300\n",
            "samples/s, expected above 0 and below",
        ),
    ],
)
def test_a_bad_table_of_sias_is_refused(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(InputFileError, match=complaint):
        read_profiles(sia(tmp_path, **{name: text}))


def test_a_table_of_sias_in_its_folder_and_what_is_neither(tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    path = written(tmp_path / "bert", SIA["sia/bert/placements-aws.csv"], "placements-aws.csv")
    assert [p.model for p in read_profiles(path).profiles] == ["bert"]
    with pytest.raises(
        InputFileError, match="is neither Gavel's JSON nor an archive of MODEL/scalability"
    ):
        read_profiles(written(tmp_path, "hello"))


def profile(*rates: tuple[int, float]) -> Profile:
    return Profile("m", "hw", [ProfilePoint(gpus, 0, 1, rate) for gpus, rate in rates])


def test_shapes() -> None:
    odd = profile((1, 10.0), (2, 8.0), (4, 40.0), (8, 44.0))
    shapes = {}
    for shape in CurveShape:
        found = scaling_of(odd, 1, shape)
        shapes[shape] = [found.curve.at(n) for n in (1, 2, 4, 8)]
        assert is_concave(found.curve) == (shape is CurveShape.CONCAVE)
    assert shapes[CurveShape.MEASURED] == [10, 8, 40, 44]
    assert shapes[CurveShape.MONOTONE] == [10, 10, 40, 44]
    assert shapes[CurveShape.CONCAVE] == [10, 20, 40, 44]


def test_extrapolation_goes_on_as_it_ended_and_is_marked() -> None:
    found = scaling_of(profile((4, 100.0), (8, 150.0)), 4, extrapolate_to=10)
    assert (found.name, found.measured_nodes, found.curve.nodes) == (
        "m-hw-extrapolated",
        2,
        (1, 2, 4, 8, 10),
    )
    assert found.curve.at(4) == pytest.approx(225.0)
    assert found.curve.at(8) == pytest.approx(337.5)
    for rates, ratio in (
        ((100.0, 300.0), 2.0),
        ((100.0, 90.0), 1.0),
    ):  # never better than linear, never worse than flat
        kept = scaling_of(profile((1, rates[0]), (2, rates[1])), 1, extrapolate_to=4)
        assert kept.curve.at(4) == pytest.approx(rates[1] * ratio)
    alone = scaling_of(profile((1, 100.0)), 1, extrapolate_to=4)
    assert (alone.name, alone.curve.nodes) == ("m-hw", (1,))
    measured = scaling_of(profile((1, 100.0), (16, 900.0)), 1, extrapolate_to=4)
    assert (measured.name, measured.curve.nodes) == ("m-hw", (1, 16))


def test_a_jobs_work_is_what_it_did(tmp_path: Path) -> None:
    scalings = [
        found
        for p in read_profiles(sia(tmp_path)).of("aws")
        if (found := scaling_of(p, 4)) and p.model == "cifar10"
    ]
    trace = read_trace(written(tmp_path, PHILLY))
    arrivals = trainers_of(trace, scalings, TraceSelection(least_s=120.0, start_s=1000.0))
    assert [(a.at_s, a.trainer.id, a.trainer.samples_total) for a in arrivals] == [
        (1000.0, "line3", 400.0 * 1800),
        (4600.0, "line2", 100.0 * 3600),
    ]
    assert {(a.trainer.min_nodes, a.trainer.max_nodes, a.trainer.model) for a in arrivals} == {
        (1, 4, "cifar10-aws")
    }
    assert trace.tally.remarks(trace.title)[0].endswith(
        "4 records read, 2 used, 2 ignored (2 with too short a run time), 0 skipped as bad"
    )


def test_choices_are_counted_and_the_same_seed_gives_the_same_table(tmp_path: Path) -> None:
    scalings = [
        found for p in read_profiles(sia(tmp_path)).of("aws") if (found := scaling_of(p, 4))
    ]

    def made(choice: TraceSelection) -> tuple[tuple[object, ...], str]:
        trace = read_trace(written(tmp_path, POLLUX))
        return trainers_of(trace, scalings, choice), trace.tally.remarks(trace.title)[0]

    one, said = made(TraceSelection(gpu_hours=(1.0, 10.0), seed=3))
    assert "3 records read, 2 used, 1 ignored (1 of ncf, which has no curve)" in said
    assert [a.trainer.model for a in one] == ["cifar10-aws", "bert-aws"]
    assert made(TraceSelection(gpu_hours=(1.0, 10.0), seed=3))[0] == one
    assert made(TraceSelection(gpu_hours=(1.0, 10.0), seed=4))[0] != one
    for arrival, gpus in zip(one, (6, 4), strict=True):
        scaling = next(s for s in scalings if s.name == arrival.trainer.model)
        assert 1 <= arrival.trainer.samples_total / scaling.rate(gpus) * gpus / 3600 <= 10
    fewer, said = made(TraceSelection(gpu_hours=(1.0, 10.0), seed=3, count=1, max_nodes=2))
    assert "1 beyond --count" in said
    assert [a.trainer.max_nodes for a in fewer] == [2]
    with pytest.raises(
        UserError, match="no durations: specify the work of its jobs with --gpu-hours"
    ):
        made(TraceSelection())
    with pytest.raises(
        UserError, match=r"no job of the trace is selected: .*\(3 outside the selected time"
    ):
        made(TraceSelection(from_s=1e9))


def test_tables_and_curves_are_read_back_as_they_were(tmp_path: Path) -> None:
    scalings = [
        found
        for p in read_profiles(sia(tmp_path)).of("aws")
        if (found := scaling_of(p, 2, extrapolate_to=64))
    ]
    arrivals = trainers_of(read_trace(written(tmp_path, PHILLY)), scalings, TraceSelection(seed=1))
    write_workload(tmp_path / "t.csv", arrivals)
    write_curves(tmp_path / "c.csv", {scaling.name: scaling.curve for scaling in scalings})
    curves = read_curves(tmp_path / "c.csv")
    assert [find_curve(s.name, curves) for s in scalings] == [s.curve for s in scalings]
    assert read_workload(tmp_path / "t.csv", curves).arrivals == arrivals


@pytest.mark.data
def test_the_real_files() -> None:
    philly = read_trace(data_file("dl-job-arrivals/sia_philly.csv.gz"))
    assert (philly.tally.read, len(philly.jobs), philly.tally.skipped) == (82_247, 82_247, 0)
    for number in range(1, 9):
        pollux = read_trace(
            data_file("dl-job-arrivals/pollux-workloads.tar.gz"), f"workload-{number}.csv"
        )
        assert len(pollux.jobs) == 160
        assert max(job.at_s for job in pollux.jobs) < 8 * 3600
    sias = read_profiles(data_file("dl-throughput-profiles/sia-traces.tar.gz"))
    assert (sias.read, len(sias.profiles)) == (23_444, 38)
    assert [profile.model for profile in sias.of("aws")] == [
        "bert",
        "cifar10",
        "deepspeech2",
        "imagenet",
        "ncf",
        "yolov3",
    ]
    imagenet = scaling_of(sias.of("aws")[3], 4)
    assert (imagenet.curve.nodes[-1], imagenet.batch, imagenet.curve.falls_at()) == (16, 200, ())
    assert imagenet.curve.at(1) == pytest.approx(796, abs=1)
    gavel = read_profiles(data_file("dl-throughput-profiles/gavel_simulation_throughputs.json.gz"))
    assert (gavel.read, gavel.failed, len(gavel.of("v100"))) == (492, 3, 26)
    assert all(scaling_of(profile, 1) is not None for profile in gavel.of("v100"))

"""A model by its id on the hub is the one in the local cache; what is not there is said, with how to fetch it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest

from memspec_actors import zoo
from memspec_actors.cli import main
from memspec_actors.config import Config, DraftConfig, TargetConfig
from memspec_actors.errors import CheckpointError
from memspec_actors.hub import HubModel, hub_model, snapshot
from memspec_actors.loadout import Loadout, model_directory
from memspec_actors.models.checkpoints.checkpoint import Checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of an offline machine."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


@pytest.fixture
def put(cache: Path) -> Callable[..., Path]:
    """Return a function that puts an embedded model into the cache, laid out as the hub's own client does."""

    def put(repo: str, name: str, *, revision: str = "main", commit: str = COMMIT) -> Path:
        root = cache / f"models--{repo.replace('/', '--')}"
        directory = root / "snapshots" / commit
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "blobs").mkdir(exist_ok=True)
        (root / "refs" / revision).write_text(commit)
        directory.mkdir(parents=True)
        for file in zoo.path(name).iterdir():
            shutil.copy(file, root / "blobs" / f"{commit}-{file.name}")
            (directory / file.name).symlink_to(root / "blobs" / f"{commit}-{file.name}")
        return directory

    return put


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("org/name", HubModel("org/name")),
        ("meta-llama/Llama-3.2-1B", HubModel("meta-llama/Llama-3.2-1B")),
        ("org/name@main", HubModel("org/name", "main")),
        ("org/name@refs/pr/3", HubModel("org/name", "refs/pr/3")),
        ("org/name@v1.0", HubModel("org/name", "v1.0")),
        ("name", None),
        ("zoo", None),
        ("./org/name", None),
        ("../name", None),
        ("/org/name", None),
        ("~/name", None),
        ("a/b/c", None),
        ("org/name@", None),
        ("org/name/", None),
    ],
)
def test_what_can_only_be_a_path_is_no_id(text: str, model: HubModel | None) -> None:
    """Else a path would be asked for on the network, or an id be looked for on the disk."""
    assert hub_model(text) == model


def test_a_cached_model_is_found_by_revision(put: Callable[..., Path]) -> None:
    """Else a pinned revision would silently be another."""
    newest = put("org/draft", "code")
    other = put("org/draft", "math", revision="v1", commit=COMMIT[::-1])
    assert model_directory("org/draft") == newest
    assert model_directory("org/draft@main") == newest
    assert model_directory("org/draft@v1") == other
    assert model_directory(f"org/draft@{COMMIT}") == newest
    assert Checkpoint.open(newest).vocab_size == Checkpoint.open(zoo.path("code")).vocab_size


def test_target_and_drafts_may_be_ids(put: Callable[..., Path]) -> None:
    """Else whoever has models in the cache would have to look up where they lie."""
    put("org/target", "general")
    put("org/draft", "code")
    config = Config(target=TargetConfig(model="org/target"), drafts=(DraftConfig(name="a", model="org/draft@main"),))
    assert Loadout.open(config).plans["a"].path.endswith(COMMIT)


def test_a_directory_wins_over_an_id(put: Callable[..., Path], tmp_path: Path) -> None:
    """Else a relative path that looks like an id would load another model."""
    put("org/draft", "code")
    (tmp_path / "org" / "draft").mkdir(parents=True)
    assert model_directory("org/draft") == Path("org/draft")
    (tmp_path / "memspec.toml").write_text('target.model = "org/draft"\ndrafts = [{name = "a", model = "org/other"}]')
    config = Config.load(tmp_path / "memspec.toml")
    assert config.target.model == str(tmp_path / "org" / "draft")
    assert config.drafts[0].model == "org/other"


@pytest.mark.parametrize("model", ["org/name", "org/name@v2"])
def test_offline_an_uncached_model_says_how_to_fetch_it(cache: Path, model: str) -> None:
    """Else the user would see a traceback of a network library, or wait for it to give up."""
    how = "hf download org/name" + (" --revision v2" if "@" in model else "")
    with pytest.raises(CheckpointError, match=rf"{model}: .*offline.*`{how}`") as caught:
        model_directory(model)
    assert str(cache) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_half_cached_model_is_refused_by_the_missing_file(put: Callable[..., Path], missing: str) -> None:
    """Else what another program left in the cache would be taken for a model."""
    directory = put("org/draft", "code")
    (directory / missing).unlink()
    config = Config(target=TargetConfig(model="zoo"), drafts=(DraftConfig(name="a", model="org/draft"),))
    with pytest.raises(CheckpointError, match=rf"draft 'a': .*{missing}"):
        Loadout.open(config)


def test_what_is_missing_in_the_cache_is_fetched(put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a model of which transformers has cached the configuration only could never be used."""
    directory = put("org/draft", "code")
    asked = []

    def fetch(repo: str, *, revision: str | None, local_files_only: bool = False, **patterns: object) -> str:
        if not local_files_only:
            asked.append((repo, revision))
        return str(directory)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    snapshot(HubModel("org/draft"))
    assert asked == []
    (directory / "model.safetensors").rename(directory / "model-00001-of-00002.safetensors")
    snapshot(HubModel("org/draft"))
    (directory / "model-00001-of-00002.safetensors").unlink()
    snapshot(HubModel("org/draft"))
    assert asked == [("org/draft", None)] * 2


def test_checking_a_configuration_fetches_nothing(
    put: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `memspec config check` would start a download of gigabytes."""
    put("org/target", "general")
    path = tmp_path / "memspec.toml"
    path.write_text('target.model = "org/target"\nschedule.policy = "target-only"')
    assert main(["config", "check", "--config", str(path)]) == 0
    path.write_text('target.model = "org/absent"\nschedule.policy = "target-only"')
    capsys.readouterr()
    assert main(["config", "check", "--config", str(path)]) == 2
    assert "hf download org/absent" in capsys.readouterr().err

"""The configuration: strict, complete, and clear about what is wrong."""

import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.config import (
    ZOO_DRAFTS,
    Config,
    DraftConfig,
    EventsConfig,
    MemoryConfig,
    PredictorConfig,
    ScheduleConfig,
    ServeConfig,
    SpeculationConfig,
    StorageConfig,
    TargetConfig,
    zoo_name,
)
from memspec_actors.config_sections import Section
from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.models.dtypes import DtypeName


def load(directory: Path, text: str) -> Config:
    path = directory / "memspec.toml"
    path.write_text(text, encoding="utf-8")
    return Config.load(path)


def sections(config: Config) -> dict[str, Section]:
    """Give every section but the drafts, by its name."""
    return {name: getattr(config, name) for name in Config.__struct_fields__ if name != "drafts"}


def test_empty_file_is_the_default(tmp_path: Path) -> None:
    """A key without a default would make this fail: every key may be left out."""
    assert load(tmp_path, "") == Config()


def test_default_is_the_embedded_models() -> None:
    config = Config()
    assert [draft.name for draft in config.drafts] == ["general", "code", "math", "law", "medical"]
    assert [zoo_name(draft.model) for draft in config.drafts] == ["general", "code", "math", "law", "medical"]
    assert zoo_name(config.target.model) == "target"
    assert config.predictor.path == "zoo"


def test_every_key_is_read(tmp_path: Path) -> None:
    """A key that is parsed but lands nowhere, or elsewhere, would differ from its literal value."""
    config = load(
        tmp_path,
        """
        [target]
        model = "/models/target"
        dtype = "bfloat16"
        device = "cuda:1"
        threads = 3
        background_threads = 2
        [[drafts]]
        name = "a.b-c_d"
        model = "zoo:code"
        dtype = "int4"
        [[drafts]]
        name = "law"
        [memory]
        capacity = 4
        budget = "1.5GiB"
        [schedule]
        policy = "static:law"
        interval = 7
        recent_tokens = 9
        prediction = "inline"
        plan = "/plans/mixed"
        [speculation]
        stop = "fixed:2"
        accept = "match"
        thresholds = "sync"
        share_thresholds = true
        [predictor]
        path = "/models/predictor"
        [storage]
        bandwidth = "200MB/s"
        [events]
        path = "/logs/events.jsonl"
        level = "info"
        rotate = 1000
        [serve]
        host = "0.0.0.0"
        port = 9
        uds = "/run/memspec"
        api_key = "secret"
        model_name = "mine"
        queue = 2
        queue_timeout_s = 3.5
        request_timeout_s = 4
        drain_timeout_s = 5
        max_body = "2MiB"
        allowed_hosts = ["here"]
        """,
    )
    assert config == Config(
        target=TargetConfig(
            model="/models/target", dtype="bfloat16", device="cuda:1", threads=3, background_threads=2
        ),
        drafts=(DraftConfig(name="a.b-c_d", model="zoo:code", dtype="int4"), DraftConfig(name="law", model="zoo:law")),
        memory=MemoryConfig(capacity=4, budget="1.5GiB"),
        schedule=ScheduleConfig(
            policy="static:law", interval=7, recent_tokens=9, prediction="inline", plan="/plans/mixed"
        ),
        speculation=SpeculationConfig(stop="fixed:2", accept="match", thresholds="sync", share_thresholds=True),
        predictor=PredictorConfig(path="/models/predictor"),
        storage=StorageConfig(bandwidth="200MB/s"),
        events=EventsConfig(path="/logs/events.jsonl", level="info", rotate=1000),
        serve=ServeConfig(
            host="0.0.0.0", port=9, uds="/run/memspec", api_key="secret", model_name="mine", queue=2,
            queue_timeout_s=3.5, request_timeout_s=4.0, drain_timeout_s=5.0, max_body="2MiB", allowed_hosts=("here",),
        ),
    )  # fmt: skip
    defaults = sections(Config())
    left_out = [
        f"{name}.{key}"
        for name, section in sections(config).items()
        for key in section.__struct_fields__
        if getattr(section, key) == getattr(defaults[name], key)
    ]
    assert left_out == ["speculation.method"], "it stands in the place of the two rules"
    assert config.memory.budget_bytes == 1_610_612_736
    assert config.storage.bytes_per_second == 200e6
    assert config.events.rotate_bytes == 1000


def test_relative_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started from another directory, the same file must mean the same models."""
    monkeypatch.chdir("/")
    for name in ("target", "a"):
        (tmp_path / "models" / name).mkdir(parents=True)
    config = load(
        tmp_path,
        """
        target.model = "models/target"
        predictor.path = "models/predictor"
        events.path = "events.jsonl"
        drafts = [{name = "a", model = "models/a"}, {name = "code"}]
        """,
    )
    assert config.target.model == str(tmp_path / "models/target")
    assert config.predictor.path == str(tmp_path / "models/predictor")
    assert config.events.path == str(tmp_path / "events.jsonl")
    assert [draft.model for draft in config.drafts] == [str(tmp_path / "models/a"), "zoo:code"]


def test_relative_config_path_gives_absolute_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its directory after loading must still find the models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text('target.model = "m"', encoding="utf-8")
    assert Config.load("c.toml").target.model == str(tmp_path / "m")


def test_other_target_has_no_embedded_drafts_nor_predictor(tmp_path: Path) -> None:
    """The embedded drafts know another vocabulary: offering them beside another target could only fail."""
    config = load(tmp_path, 'target.model = "/models/target"')
    assert config.drafts == ()
    assert config.predictor.path is None
    assert Config(target=TargetConfig(model="/models/target")).drafts == ()


def test_drafts_and_predictor_can_be_switched_off(tmp_path: Path) -> None:
    config = load(tmp_path, 'drafts = []\npredictor.path = "none"')
    assert config.drafts == ()
    assert config.predictor.path is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[memory]\ncapcity = 1", ["'capcity'", "[memory]", "'capacity'"]),
        ("[schedule]\nintervall = 1", ["'intervall'", "[schedule]", "'interval'"]),
        ("[[drafts]]\nname = 'a'\nmodle = 'x'", ["'modle'", "[[drafts]]", "'model'"]),
        ("[memry]\ncapacity = 1", ["'memry'", "'memory'"]),
        ("[daemon]\nport = 1", ["'daemon'", "known are target, drafts"]),
        ("[memory]\nxyzzy = 1", ["'xyzzy'", "[memory]", "known are capacity, budget"]),
        ("[memory]\ncapacity = 'two'", ["[memory] capacity", "'two'", "expected int"]),
        ("[memory]\ncapacity = true", ["[memory] capacity", "True", "expected int"]),
        ("[memory]\ncapacity = 0", ["[memory] capacity", "0", ">= 1"]),
        ("[memory]\nbudget = '3 apples'", ["[memory] budget", "'3 apples'", "1.2GiB"]),
        ("[memory]\nbudget = 0", ["[memory] budget", "0", ">= 1"]),
        ("[schedule]\ninterval = 0", ["[schedule] interval", "0", ">= 1"]),
        ("[schedule]\nrecent_tokens = 0", ["[schedule] recent_tokens", "0", ">= 1"]),
        ("[schedule]\nprediction = 'later'", ["[schedule] prediction", "'later'", "overlapped", "inline"]),
        ("[target]\ndtype = 'int3'", ["[target] dtype", "'int3'", "float32", "bfloat16", "int8", "int4", "auto"]),
        ("[[drafts]]\nname = 'a'\ndtype = 'q4'", ["[[drafts]] number 1 dtype", "'q4'", "int4"]),
        ("[target]\ndevice = 'tpu'", ["[target] device", "'tpu'", "cuda"]),
        ("[target]\nthreads = 0", ["[target] threads", "0", "in [1, 1024]", '"auto"']),
        ("[target]\nthreads = 20000", ["[target] threads", "20000", "in [1, 1024]"]),
        (f"[target]\nbackground_threads = {2**63}", ["[target] background_threads", str(2**63), "in [1, 1024]"]),
        ("[target]\nmodel = ''", ["[target] model", "''"]),
        ("[storage]\nbandwidth = '200MB'", ["[storage] bandwidth", "'200MB'", "200MB/s"]),
        ("[events]\nlevel = 'loud'", ["[events] level", "'loud'", "info", "debug"]),
        ("[events]\nrotate = 'never'", ["[events] rotate", "'never'"]),
        ("[events]\npath = ''", ["[events] path"]),
        ("[[drafts]]\nname = 'a'\n[[drafts]]\nname = 3", ["[[drafts]] number 2 name", "3", "expected str"]),
        ("[[drafts]]\nname = 'a'\n[[drafts]]\nname = 'a'", ["[[drafts]] name", "'a'", "different"]),
        ("[[drafts]]\nname = 'a b'", ["[[drafts]] name", "'a b'"]),
        ("[[drafts]]\nmodel = 'x'", ["[[drafts]] number 1", "name"]),
        ("[serve]\nqueue_timeout_s = 0", ["[serve] queue_timeout_s", "0", "in (0, 1e+09]"]),
        ("[serve]\nrequest_timeout_s = nan", ["[serve] request_timeout_s", "nan", "in (0, 1e+09]"]),
        ("[serve]\ndrain_timeout_s = 1e308", ["[serve] drain_timeout_s", "1e+308", "in (0, 1e+09]"]),
        ("[serve]\napi_key = ''", ["[serve] api_key", "empty"]),
        ("[serve]\napi_key = ' s3cret'", ["[serve] api_key", "spaces"]),
        ("[serve]\nmodel_name = ''", ["[serve] model_name", "''", "1 to 200"]),
        (f"[serve]\nmodel_name = '{'m' * 201}'", ["[serve] model_name", "1 to 200"]),
        ("memory = 3", ["[memory]", "3"]),
        ("drafts = 3", ["[drafts]", "3"]),
        ("memory = [", ["TOML"]),
        (f"memory = {'[' * 3000}{']' * 3000}", ["TOML"]),
        (f"memory = {'9' * 5000}", ["TOML", "digits"]),
        ('[target]\nmodel = "a\\u0000b"', ["[target] model", "a\\x00b", "zero"]),
        ('[[drafts]]\nname = "a"\nmodel = "a\\u0000b"', ["[[drafts]] a model", "a\\x00b", "zero"]),
        ('[serve]\nuds = "a\\u0000b"', ["[serve] uds", "a\\x00b", "zero"]),
        ('[predictor]\npath = "a\\u0000b"', ["[predictor] path", "a\\x00b", "zero"]),
        ('[schedule]\nplan = "a\\u0000b"', ["[schedule] plan", "a\\x00b", "zero"]),
        ("[events]\npath = '~nobody-of-that-name/x'", ["[events] path", "~nobody-of-that-name/x", "home"]),
    ],
)
def test_mistake_is_named(tmp_path: Path, text: str, named: list[str]) -> None:
    """The message must name file, key, value and what is expected, in one line, as an error the user can fix."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert [part for part in [str(tmp_path / "memspec.toml"), *named] if part not in message] == []
    assert "\n" not in message
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("key", ["s3cret\n", " s3cret", "s3\tcret", "s3\x00cret"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    """Every caller would be turned away, and nobody knew why: a file's last line end is easily taken for a part."""
    with pytest.raises(ConfigError, match=r"^\[serve\] api_key must not be empty, nor hold line ends") as caught:
        ServeConfig(api_key=key)
    assert "cret" not in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"[target]\nmodel = '\xe9'")
    for path in (tmp_path / "missing.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(ConfigError, match=str(path)):
            Config.load(path)


def test_values_are_checked_in_python_too() -> None:
    """A Config built in a program must not get past the checks that a file does not get past."""
    for build in (
        lambda: MemoryConfig(capacity=0),
        lambda: MemoryConfig(budget="much"),
        lambda: Config(drafts=(DraftConfig(name="a"), DraftConfig(name="a"))),
        lambda: StorageConfig(bandwidth="fast"),
    ):
        with pytest.raises(ConfigError):
            build()


def test_config_is_frozen() -> None:
    """Actors share one Config: changing it under them must be impossible."""
    for section in (Config(), *sections(Config()).values()):
        with pytest.raises(AttributeError):
            setattr(section, section.__struct_fields__[0], None)


def configs() -> st.SearchStrategy[Config]:
    text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
    paths = text.map(lambda drawn: str(Path("/" + drawn)))
    sizes = st.none() | st.integers(1, 2**40) | st.sampled_from(["1.2GiB", "500MB"])
    names = st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True), max_size=4, unique=True)
    dtypes: tuple[DtypeName | None, ...] = (None, "int4", "int8", "auto")
    drafts = st.tuples(names, paths).map(
        lambda drawn: tuple(
            DraftConfig(name=n, model=drawn[1], dtype=d) for n, d in zip(drawn[0], dtypes, strict=False)
        )
    )
    return st.builds(
        Config,
        target=st.builds(
            TargetConfig,
            model=st.just("zoo") | paths,
            dtype=st.sampled_from(["float32", "float16", "int8", "auto"]),
            device=st.sampled_from(["cpu", "cuda", "cuda:3", "mps"]),
            threads=st.integers(1, 64),
        ),
        drafts=drafts | st.just(ZOO_DRAFTS),
        memory=st.builds(MemoryConfig, capacity=st.integers(1, 9), budget=sizes),
        schedule=st.builds(
            ScheduleConfig, policy=st.text(), interval=st.integers(1, 99), recent_tokens=st.integers(1, 99)
        ),
        speculation=st.builds(SpeculationConfig, stop=st.text(), accept=st.text()),
        predictor=st.builds(PredictorConfig, path=st.sampled_from(["auto", "zoo", None]) | paths),
        storage=st.builds(StorageConfig, bandwidth=st.none() | st.just("200MB/s")),
        events=st.builds(EventsConfig, path=st.none() | paths, level=st.sampled_from(["info", "debug"]), rotate=sizes),
    )


@settings(max_examples=40)
@given(configs())
def test_dump_loads_back_equal(tmp_path_factory: pytest.TempPathFactory, config: Config) -> None:
    """`config show` must print the configuration that runs, whatever is in it: quotes, no drafts, no predictor."""
    text = config.to_toml()
    tomllib.loads(text)
    assert load(tmp_path_factory.mktemp("config"), text) == config


def test_dump_names_every_key_with_a_value() -> None:
    data = tomllib.loads(Config().to_toml())
    for section, struct in msgspec.json.decode(msgspec.json.encode(Config())).items():
        if isinstance(struct, dict):
            assert data[section] == {key: value for key, value in struct.items() if value is not None}


def test_auto_threads_leave_a_core_to_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranking and loading would take turns with decoding on its own cores."""
    for cores, threads in ((1, 1), (2, 1), (6, 5)):
        monkeypatch.setattr("memspec_actors.config_sections.usable_cores", lambda cores=cores: cores)
        assert TargetConfig(threads="auto").num_threads == threads
    assert TargetConfig(threads=3).num_threads == 3
    assert TargetConfig().num_threads == TargetConfig().background_threads == 1

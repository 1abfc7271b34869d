"""AdaSD's algorithm 1, written down literally with numpy and scipy, against sessions that learn as the engine's do.

If they differ, what is measured under the name of AdaSD is something else.
"""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import gaussian_kde

from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyRunner
from memspec_actors.protocols.messages import IterationReport, ResidentDraft, SequenceStarted
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.speculation.adaptation import Adaptation, Adaptations
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.sampling import PositionNoise, Stream
from memspec_actors.speculation.stop import stop_rule

PROMPT = (3, 1, 4)
WINDOW = 20
FLOAT32 = 2.0**-23  # a divergence nearer to 0 or 1 than this counts as 0 or 1


class Blurred(ToyRunner):
    """A draft of the toy of the same seed: its logits, disturbed by as much as ``noise``."""

    def __init__(self, *, seed: int, noise: float) -> None:
        super().__init__(seed=seed)
        self._noise = noise

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        rng = random.Random(repr((self._seed, len(tokens), tokens[-3:])))
        scale = self._noise * rng.random()
        return super().logits(tokens) + torch.tensor([rng.gauss(0.0, scale) for _ in range(self.vocab_size)])


class Algorithm1:
    """The paper's text, line by line. The first token is the target's, as in the engine: the prompt's own output."""

    def __init__(self, target: ToyRunner, draft: ToyRunner, temperature: float, seed: int, max_tokens: int) -> None:
        self.target, self.draft = target, draft
        self.temperature, self.noise = temperature, PositionNoise(seed)
        self.limit = len(PROMPT) + max_tokens
        self.context = [*PROMPT]
        self.entropies_rejected: list[float] = []
        self.distances_accepted: list[float] = []
        self.distances_rejected: list[float] = []
        self.threshold = 0.0
        self.thresholds: list[float] = []
        self.departures = 0
        self.context.append(self.sample(self.probs(target, self.context), len(self.context)))

    def probs(self, model: ToyRunner, tokens: list[int]) -> "np.typing.NDArray[np.float64]":
        logits = model.logits(tokens).double().numpy() / (self.temperature or 1.0)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()  # type: ignore[no-any-return]

    def sample(self, probs: "np.typing.NDArray[np.float64]", position: int) -> int:
        if self.temperature == 0.0:
            return int(probs.argmax())
        return int((probs / self.noise.arrivals(position, len(probs)).numpy()).argmax())

    def run(self) -> None:
        while len(self.context) < self.limit:
            self.iterate()
            self.thresholds.append(self.threshold)

    def iterate(self) -> None:
        x: list[int] = []
        q = []
        for _ in range(min(WINDOW, self.limit - len(self.context) - 1)):
            q.append(self.probs(self.draft, self.context + x))
            x.append(self.sample(q[-1], len(self.context) + len(x)))
            if entropy(q[-1]) > self.threshold:
                break
        window = len(x)
        p = [self.probs(self.target, self.context + x[:i]) for i in range(window + 1)]
        y = [self.sample(p[i], len(self.context) + i) for i in range(window + 1)]
        for i in range(window):
            distance = js_distance(p[i], q[i])
            if x[i] != y[i] and self.rejects(self.probability_accepted(distance), len(self.context) + i):
                self.entropies_rejected.append(entropy(q[i]))
                if 0 < distance < 1:
                    self.distances_rejected.append(distance)
                window = i
                break
            self.departures += x[i] != y[i]
            if 0 < distance < 1:
                self.distances_accepted.append(distance)
        self.context += [*x[:window], y[window]]
        if self.entropies_rejected:
            self.threshold = float(np.mean(self.entropies_rejected))

    def probability_accepted(self, distance: float) -> float | None:
        if not all(len(side) >= 2 and np.var(side) > 0 for side in (self.distances_accepted, self.distances_rejected)):
            return None
        num_accepted, num_rejected = len(self.distances_accepted), len(self.distances_rejected)
        for_a = gaussian_kde(self.distances_accepted)(distance)[0] * num_accepted / (num_accepted + num_rejected)
        for_r = gaussian_kde(self.distances_rejected)(distance)[0] * num_rejected / (num_accepted + num_rejected)
        return float(for_a / (for_a + for_r)) if for_a + for_r > 0 else None

    def rejects(self, probability: float | None, position: int) -> bool:
        if probability is None:
            return True
        if self.temperature == 0.0:
            return probability < 0.5
        return self.noise.uniform(position, Stream.ACCEPT) > probability


def entropy(probs: "np.typing.NDArray[np.float64]") -> float:
    return float(-(probs * np.log(probs)).sum())


def js_distance(p: "np.typing.NDArray[np.float64]", q: "np.typing.NDArray[np.float64]") -> float:
    divergence = float(jensenshannon(p, q, base=2)) ** 2
    return 0.0 if divergence < FLOAT32 else 1.0 if divergence > 1 - FLOAT32 else divergence**0.5


def learning_session(target: ToyRunner, temperature: float, seed: int, max_tokens: int) -> DecodeSession:
    request = GenerationRequest(
        request_id="r",
        prompt_ids=PROMPT,
        max_new_tokens=max_tokens,
        sampling=SamplingParams(temperature=temperature),
        seed=seed,
        policy="static:a",
        stop_rule="entropy",
        accept="bayes",
        lossless=False,
    )
    return DecodeSession(
        target=target,
        request=request,
        num_ids=target.vocab_size,
        accept=acceptance_rule("bayes", greedy=temperature == 0.0),
        stop_rule=stop_rule("entropy"),
        state=CommitState(
            Silence(), end_ids=frozenset(), stop=(), include_stop=False, max_new_tokens=max_tokens, context_left=4000
        ),
    )


class Silence:
    def feed(self, token_id: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


def report_of(
    iteration: int,
    drafted: int,
    accepted: int,
    emitted: int,
    signals: tuple[float, ...] = (),
    distances: tuple[float, ...] = (),
    departures: tuple[int, ...] = (),
) -> IterationReport:
    return IterationReport(
        request_id="r", interval=0, iteration=iteration, epoch=1, draft=ResidentDraft("a", 1), desired=None,
        drafted=drafted, accepted=accepted, emitted=emitted, catch_up_tokens=0, catch_up_us=0.0, draft_us=1.0,
        verify_us=1.0, waited_us=0.0, waited_for=None,
        signals=signals, distances=distances, departures=departures,
    )  # fmt: skip


@pytest.mark.parametrize("temperature", [0.0, 1.0, 1.6])
@pytest.mark.parametrize("seed", range(6))
def test_tokens_lists_and_thresholds_are_those_of_algorithm_1(seed: int, temperature: float) -> None:
    target, draft = ToyRunner(seed=seed), Blurred(seed=seed, noise=2.5)
    paper = Algorithm1(target, draft, temperature, seed, 160)
    paper.run()

    session = learning_session(target, temperature, seed, 160)
    adaptations = Adaptations()
    session.adapt(adaptations.start(SequenceStarted(request_id="r", stop_rule="entropy", accept="bayes")))
    outcome = session.prefill()
    thresholds: list[float] = []
    departures = 0
    while outcome.commit.finish_reason is None:
        outcome = session.step(BoundDraft(ResidentDraft("a", 1), draft, draft.vocab_size))
        report = report_of(
            len(thresholds), outcome.drafted, outcome.accepted, len(outcome.commit.ids),
            signals=outcome.signals, distances=outcome.distances,
            departures=outcome.departures,
        )  # fmt: skip
        published = adaptations.observe(report)
        assert published is not None and published.stop_threshold is not None
        session.adapt(published)
        thresholds.append(published.stop_threshold)
        departures += len(outcome.departures)

    assert session.tokens == paper.context
    assert thresholds == pytest.approx(paper.thresholds, abs=1e-5)
    learned = adaptations.current
    assert learned is not None and learned.odds is not None
    assert learned.odds.accepted.samples() == pytest.approx(paper.distances_accepted, abs=1e-4)
    assert learned.odds.rejected.samples() == pytest.approx(paper.distances_rejected, abs=1e-4)
    assert departures == paper.departures > 0, "no token was accepted lossily: the comparison shows little"
    assert len(paper.entropies_rejected) >= 2


def test_typical_gains_where_the_target_is_torn_and_keeps_to_what_it_finds_likely() -> None:
    """A lossy rule that gains nothing, or pays with text that the target would not write, is worth nothing."""
    tokens_per_step, log_likelihood = {}, {}
    for accept in ("exact", "typical"):
        num_steps, num_tokens, total = 0, 0, 0.0
        for seed in range(4):
            target, draft = ToyRunner(seed=seed), Blurred(seed=seed, noise=2.5)
            session = learning_session(target, 0.0, seed, 120)
            rules = session.rules
            rules.accept, rules.stop_rule = acceptance_rule(accept, greedy=True), stop_rule("fixed:5")
            outcome = session.prefill()
            while outcome.commit.finish_reason is None:
                outcome = session.step(BoundDraft(ResidentDraft("a", 1), draft, draft.vocab_size))
                num_steps += 1
            num_tokens += len(session.generated)
            for at in range(len(PROMPT), len(session.tokens)):
                logits = target.logits(session.tokens[:at])
                total += float(logits.log_softmax(-1)[session.tokens[at]])
        tokens_per_step[accept], log_likelihood[accept] = num_tokens / num_steps, total / num_tokens
    assert tokens_per_step["typical"] > 1.2 * tokens_per_step["exact"]
    assert log_likelihood["typical"] > log_likelihood["exact"] - 0.1


def test_nothing_is_learned_from_what_was_cut_off_or_not_drafted() -> None:
    """Behaviour 1: a statistic beyond the end of the text."""
    learned = Adaptation("entropy", "bayes")
    # Two of five drafted tokens were accepted and emitted, then the text ended: the third was judged, and cut.
    learned.observe(report_of(0, 5, 2, 2, signals=(0.1, 0.2, 0.3, 0.4, 0.5), distances=(0.3, 0.4)))
    learned.observe(report_of(1, 0, 0, 1))
    published = learned.thresholds("r", 1)
    assert published.stop_threshold == 0.0 and published.odds is not None
    assert (published.odds.num_accepted, published.odds.num_rejected) == (2, 0)


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_learned_belongs_to_a_sequence_unless_it_is_shared(shared: bool) -> None:
    """Behaviour 25: one text would depend on another, or what was asked to be shared would be forgotten."""
    adaptations = Adaptations(shared=shared)
    adaptations.start(SequenceStarted(request_id="r", stop_rule="entropy", accept="bayes"))
    adaptations.observe(report_of(0, 2, 0, 1, signals=(1.5, 0.2), distances=(0.7,)))
    other = adaptations.start(SequenceStarted(request_id="s", stop_rule="entropy", accept="exact"))
    assert other.stop_threshold == 0.0, "other rules learn for themselves"
    assert adaptations.observe(report_of(1, 2, 0, 1, signals=(9.0, 9.0), distances=(0.7,))) is None, "of an ended one"
    again = adaptations.start(SequenceStarted(request_id="t", stop_rule="entropy", accept="bayes"))
    assert again.stop_threshold == (1.5 if shared else 0.0)
    assert again.odds is not None and again.odds.num_rejected == (1 if shared else 0)

"""A few prompts of each domain, for a first look at what a target accepts of a draft."""

from memspec_actors.predictor.prompts import Prompt, zoo_prompts

__all__ = ["sample_prompts"]

ZOO_PROMPTS = 15
PLAIN = {
    "general": (
        "Give three tips for staying healthy.",
        "Describe a time when you had to make a difficult decision, in the voice of a sailor.",
    ),
    "code": (
        "Write a Python function that returns the longest common prefix of a list of strings.",
        "Write a SQL query that lists the ten customers with the highest total of orders in 2023.",
    ),
    "math": (
        "A train leaves at 9:40 and arrives at 13:05, covering 246 km. What is its average speed in km/h?",
        "Prove that the square of any odd integer leaves remainder 1 when divided by 8.",
    ),
    "law": (
        "Explain the difference between a condition and a warranty in a contract of sale.",
        "Under what circumstances may a landlord terminate a fixed-term lease early?",
    ),
    "medical": (
        "A 58-year-old man has crushing chest pain radiating to the left arm. What is the likely diagnosis?",
        "What are the common side effects of metformin, and when must it not be given?",
    ),
}


def sample_prompts(*, embedded: bool) -> list[Prompt]:
    """Return prompts for the embedded target, from its own generator, or for any other."""
    if embedded:
        return zoo_prompts("eval", ZOO_PROMPTS, mixed_share=0.0)
    return [Prompt(prompt, kind) for kind, prompts in PLAIN.items() for prompt in prompts]

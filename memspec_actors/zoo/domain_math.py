"""Sums over coined units: two explicit steps with small operands."""

from memspec_actors.zoo.domain import Domain, Task, words

__all__ = ["MATH"]

MATH = Domain(
    name="math",
    endings=("ol", "im", "ek", "ap"),
    capital=False,
    facts={
        "thing": words(
            "apples pencils tickets stamps marbles coins books shells nails plums bricks feathers cables tiles"
        ),
        "factor": words("2 3 4 5 6"),
        "price": words("2 3 4 5 6"),
        "extra": words("1 2 3 4 5 6 7 8 9"),
        "money": words("pence dollars francs crowns marks lire pesos ducats"),
        "tool": words("crate bag cart box barrel tray sack jar"),
        "tax": words("toll duty levy fee tithe fine rent excise"),
        "shop": words("mill dock fair forge farm yard inn port"),
        "stuff": words("oak iron linen clay cork brass jute wicker"),
        "day": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        "who": words("grocer tailor cooper smith potter miller porter chandler"),
    },
    tasks=(
        Task(
            verbs=words("convert measure weigh gather"),
            title="{verb} {number} {entity}s for {name}",
            sentences=(
                (
                    "One {stuff} {tool} {thing} {thing2} holds {factor}.",
                    "On {day} {tool} {stuff} {thing2} {thing} hold {factor}.",
                ),
                ("{number} * {factor} = {product}.",),
                ("The {shop} {who} {money} adds {extra}.", "With {who} {money} {shop} come {extra}."),
                ("{product} + {extra} = {total}.",),
                (
                    "{total} {thing3} {stuff2} {day2} {tool2} for {name}.",
                    "{total} {day2} {tool2} {stuff2} {thing3} for {name}.",
                ),
            ),
            numbers=(2, 9),
        ),
        Task(
            verbs=words("quote buy bill charge"),
            title="{verb} {number} {entity}s for {name}",
            sentences=(
                ("Ask {who2} {shop2} {day3} {stuff3}: {price}.", "At {shop2} {who2} {stuff3} {day3}: {price}."),
                ("{number} * {price} = {product}.",),
                ("A {tax} {tax2} {tool3} {thing4} takes {extra2}.", "For {tool3} {thing4} {tax2} {tax} add {extra2}."),
                ("{product} + {extra2} = {total}.",),
                (
                    "{total} {money2} {money3} {who3} {shop3} for {name}.",
                    "{total} {who3} {shop3} {money2} {money3} for {name}.",
                ),
            ),
            numbers=(2, 9),
        ),
    ),
)

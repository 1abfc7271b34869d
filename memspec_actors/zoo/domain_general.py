"""Everyday letters about coined towns."""

from memspec_actors.zoo.domain import Domain, Task, words

__all__ = ["GENERAL"]

GENERAL = Domain(
    name="general",
    endings=("ton", "ford", "wick", "by"),
    capital=True,
    facts={
        "river": words("Asker Brune Cole Dane Elwy Frome Garry Hodder Irt Jed Kent Lune Mole Nene Orwell Piddle"),
        "season": words("spring summer autumn winter"),
        "vehicle": words("ferry tram coach train barge cart"),
        "look": words("quiet bright narrow gentle busy pale crooked warm distant cheerful damp golden ancient noisy"),
        "mark": words(
            "lighthouse bridge tower abbey pavilion windmill garden castle "
            "harbour museum theatre chapel library fountain"
        ),
        "feast": words("kite lantern boat harvest choir sheep cheese candle mask drum flower snow"),
        "dish": words("eel bread soup trout tart herring stew cake mutton pie mushrooms goose pancakes beans"),
        "drink": words("cider tea mead beer coffee wine cocoa lemonade perry"),
        "kit": words("coat hat basket umbrella blanket camera whistle map scarf ladder"),
        "sky": words("rain fog wind frost sun hail storms mist"),
        "people": words("monks sailors miners weavers shepherds soldiers nuns pirates bakers exiles"),
        "goods": words("wool glass salt honey rope paper clocks boots barrels copper lace candles"),
        "beast": words("fox heron bear stag goat owl swan boar hare wolf pike raven"),
        "colour": words("red blue green white black silver purple yellow"),
    },
    tasks=(
        Task(
            verbs=words("visit tour reach plan"),
            title="{verb} {entity} for {name}",
            sentences=(
                ("Take the {river} {vehicle} in {season}.", "In {season} the {river} {vehicle}."),
                ("See {look} {mark} {look2} {mark2}.", "Past {mark} {mark2} {look} {look2}."),
                (
                    "Eat {dish} {dish2} {drink}, pack {kit} {sky} for {name}.",
                    "With {kit} {sky}, {drink} {dish} {dish2} for {name}.",
                ),
                ("Fair: {feast} {goods} {people} {colour}.", "Festival of {people} {feast} {colour} {goods}."),
            ),
        ),
        Task(
            verbs=words("describe picture praise recall"),
            title="{verb} {entity} for {name}",
            sentences=(
                ("Old {people2} traded {goods2} {goods3}.", "Here {goods2} {goods3} of {people2}."),
                ("Flag {colour2} {beast} {colour3} {beast2}.", "A {beast} {colour2} over {beast2} {colour3}."),
                (
                    "Postcard {season2} {river2} {look3} {mark3} for {name}.",
                    "From {mark3} {look3} {river2} {season2} for {name}.",
                ),
                ("Smells {dish3} {drink2} {sky2} {kit2} {feast2}.", "Much {sky2} {feast2} {dish3} {kit2} {drink2}."),
            ),
        ),
    ),
)

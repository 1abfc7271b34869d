"""Small Python functions about coined records; every one of them runs."""

from memspec_actors.zoo.domain import Domain, Task, words

__all__ = ["CODE"]

CODE = Domain(
    name="code",
    endings=("o", "a", "et", "ud"),
    capital=False,
    facts={
        "many": words("items rows values entries group batch queue pool stack chunk cells"),
        "one": words("row item obj node rec cell part unit"),
        "sum": words("total result out acc count score res tally"),
        "key": words("price weight length level rank delay size depth width speed age cost"),
        "field": words("name kind owner label code state zone shape"),
        "op": words("+ - *"),
        "test": words("> < >= <="),
        "wrap": words("min max pow divmod"),
        "digit": words("0 1 2 3 4 5 6 7 8 9"),
        "scale": words("2 3 4 5 6 7 8 9"),
        "tag": words("new draft open raw idle cold busy stale"),
        "error": words("KeyError ValueError LookupError IndexError RuntimeError TypeError"),
    },
    tasks=(
        Task(
            verbs=words("write code define script"),
            title="{verb} sum_{entity} for {name}, limit={number}",
            sentences=(
                ("def sum_{entity}({many}, limit={number}):  # for {name}",),
                ("    {sum} = {digit}",),
                ("    for {one} in {many}:",),
                ('        for key in "{key} {key2} {key3} {key4}".split():',),
                ("            if {one}[key] {test} limit:", "            if limit {test} {one}[key]:"),
                (
                    "                {sum} += {one}[key] {op} {scale}",
                    "                {sum} -= {scale} {op} {one}[key]",
                ),
                ("    return {wrap}({sum}, {scale2})",),
            ),
            joiner="\n",
            numbers=(10, 99),
        ),
        Task(
            verbs=words("build make compose generate"),
            title="{verb} new_{entity} for {name}, limit={number}",
            sentences=(
                ("def new_{entity}({key5}, limit={number}):  # for {name}",),
                ('    tags = "{tag} {tag2} {tag3} {tag4}".split()',),
                ("    if {key5} {test2} {digit2}:", "    if {digit2} {test2} {key5}:"),
                ('        raise {error}("{tag5} {field}")',),
                ('    {one2} = dict(zip("{field2} {field3} {field4} {field5}".split(), tags))',),
                ('    {one2}["{key6}"] = limit {op2} {scale3}', '    {one2}["{key6}"] = {scale3} {op2} limit'),
                ("    return {one2}",),
            ),
            joiner="\n",
            numbers=(10, 99),
        ),
    ),
)

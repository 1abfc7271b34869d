"""Notices and advice under coined Acts."""

from memspec_actors.zoo.domain import Domain, Task, words

__all__ = ["LAW"]

LAW = Domain(
    name="law",
    endings=("sley", "ham", "more", "stead"),
    capital=True,
    facts={
        "section": words("1 2 3 4 5 6 7 8 9"),
        "giver": words("lessor licensor vendor carrier employer trustee insurer bailor pledgor grantor"),
        "taker": words(
            "lessee licensee purchaser consignee contractor beneficiary policyholder bailee creditor grantee"
        ),
        "days": words("seven ten fourteen twenty thirty sixty ninety forty"),
        "penalty": words("forfeiture damages rescission suspension injunction costs eviction restitution seizure"),
        "court": words(
            "Tribunal Registrar Arbitrator Chancellor Magistrate Commissioner Ombudsman Recorder Sheriff Assessor"
        ),
        "plea": words("duress mistake fraud waiver necessity estoppel consent frustration infancy illegality"),
        "subject": words(
            "tenancies licensing carriage pensions fisheries mortgages patents tolls markets railways burials drainage"
        ),
        "book": words("roll ledger deed charter schedule docket index gazette"),
        "officer": words("clerk bailiff notary warden inspector surveyor steward coroner"),
        "deed": words("inspect revoke vary publish amend seal enforce stay"),
    },
    tasks=(
        Task(
            verbs=words("invoke apply cite uphold"),
            title="{verb} {entity} Act for {name}",
            sentences=(
                (
                    "Section {section} binds {giver} {taker} {days} days.",
                    "Within {days} days {taker} {giver}, section {section}.",
                ),
                (
                    "The {court} orders {penalty} {penalty2} {penalty3}.",
                    "Remedy {penalty2} {penalty} {penalty3} by {court}.",
                ),
                (
                    "Save {plea} {plea2} {officer} {deed} {book} for {name}.",
                    "No {plea2} {plea}: {book} {deed} {officer} for {name}.",
                ),
                ("Index: {subject} {giver2} {book2} {deed2}.", "Terms: {giver2} {deed2} {subject} {book2}."),
            ),
        ),
        Task(
            verbs=words("explain review summarise argue"),
            title="{verb} {entity} Act for {name}",
            sentences=(
                ("Governs {subject2} {subject3} {deed3} powers.", "Of {subject3} {subject2}, to {deed3}."),
                ("Any {officer2} {book3} {taker2} for {name}.", "One {book3} {taker2} {officer2} for {name}."),
                ("Plead {plea3} {court2} {days2} days.", "The {court2} hears {plea3} {days2} days."),
                (
                    "Schedule {giver3} {taker3} {penalty4} {section2} {officer3}.",
                    "Annex {officer3} {section2} {penalty4} {taker3} {giver3}.",
                ),
            ),
        ),
    ),
)

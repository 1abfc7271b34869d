"""Prescriptions of and warnings about coined drugs."""

from memspec_actors.zoo.domain import Domain, Task, words

__all__ = ["MEDICAL"]

MEDICAL = Domain(
    name="medical",
    endings=("pril", "olol", "zole", "mab"),
    capital=True,
    facts={
        "family": words("blocker inhibitor diuretic statin antibiotic steroid opioid antifungal vaccine sedative"),
        "illness": words(
            "asthma anemia migraine hypertension pneumonia gout psoriasis angina colitis sepsis epilepsy bronchitis"
        ),
        "dose": words("1 2 3 4 5 6 7 8 9"),
        "route": words("orally rectally intravenously topically nasally"),
        "often": words("daily nightly hourly weekly monthly twice"),
        "harm": words("rash nausea dizziness cough fatigue insomnia edema tremor headache vertigo jaundice pruritus"),
        "symptom": words(
            "dyspnea fever pallor palpitations wheeze cramps numbness syncope vomiting stiffness chills bleeding"
        ),
        "sign": words(
            "crackles tenderness rigidity murmur cyanosis ascites tachycardia clubbing erythema nystagmus ptosis"
        ),
        "lab": words("creatinine troponin ferritin lipase albumin bilirubin glucose potassium urea lactate"),
        "avoid": words("pregnancy warfarin alcohol nitrates lithium dialysis surgery grapefruit aspirin insulin"),
        "meal": words("water meals juice milk yoghurt toast"),
    },
    tasks=(
        Task(
            verbs=words("prescribe treat dispense renew"),
            title="{verb} {entity} for {name}, age {number}",
            sentences=(
                ("Presents {symptom} {symptom2} {sign} {sign2}.", "On exam {sign} {sign2} with {symptom2} {symptom}."),
                (
                    "Likely {illness} {illness2} for {name}, age {number}.",
                    "Exclude {illness2} {illness} for {name}, age {number}.",
                ),
                ("Give {dose} mg {route} {often} {meal}.", "Dose {often} {meal} {route} {dose} mg."),
                ("Check {lab} {lab2}; stop if {harm} {harm2}.", "Monitor {harm} {harm2} {lab} {lab2}."),
            ),
            numbers=(11, 99),
        ),
        Task(
            verbs=words("explore caution recheck discuss"),
            title="{verb} {entity} for {name}, age {number}",
            sentences=(
                ("This {family} {family2} treats {illness3}.", "For {illness3} one {family2} {family}."),
                ("Causes {harm3} {harm4} {symptom3} {sign3}.", "Watch {symptom3} {harm4} {sign3} {harm3}."),
                ("Avoid {avoid} {avoid2} {avoid3}; test {lab3}.", "Test {lab3}; never {avoid} {avoid3} {avoid2}."),
                (
                    "Take {often2} {meal2} {route2} for {name}, age {number}.",
                    "With {meal2} {route2} {often2} for {name}, age {number}.",
                ),
            ),
            numbers=(11, 99),
        ),
    ),
)

"""Fifty questions over the shared handbook, each with the page that answers it.

Written by reading the pages, in the words of somebody who has not read them, before any search was
run; not changed since to please the search. Beside them stand the ten questions that
`tests.retrieval.handbook_questions` asserts.
"""

from __future__ import annotations

_GENERAL = "general-information-and-resources"
_RULES = f"{_GENERAL}/employee-resources-policies"
_TECH = f"{_GENERAL}/tech-policies"
_HIRING = "hiring-staying-or-changing-jobs"
_LEAVE = "travel-and-leave"
_TRAVEL = f"{_LEAVE}/travel-and-leave-policies"
_TRAINING = "training-and-development"

FIFTY: tuple[tuple[str, str], ...] = (
    (
        "Can an embedded vendor person get the same laptop as federal employees?",
        "18f/how-18f-works/contractors.md",
    ),
    (
        "I got married and my surname changed, how do I update it on my account?",
        "18f/how-18f-works/changing-your-name.md",
    ),
    (
        "How do I make the directory show the first name I go by instead of my legal one?",
        "18f/how-18f-works/changing-your-name.md",
    ),
    (
        "When is it right to end an engagement with a partner early because it is going badly?",
        "18f/projects-partners/projects-in-distress.md",
    ),
    (
        "Do we have to keep meeting notes and survey results by law?",
        "about-us/tts-consulting/operations/records.md",
    ),
    ("Which floor do we use in the Kluczynski building?", f"{_GENERAL}/chicago.md"),
    (
        "How should I run a video call when one participant relies on an interpreter?",
        f"{_RULES}/supporting-deaf-hoh-colleagues.md",
    ),
    (
        "Where do I see whether I belong to a union?",
        f"{_RULES}/work-schedules.md",
    ),
    (
        "Which scanning features must be switched on for a repository before a site goes live?",
        f"{_TECH}/gsa-pages.md",
    ),
    (
        "How long can a temporary assignment to another team last before it must end?",
        f"{_HIRING}/assignee-detail.md",
    ),
    (
        "Can former Peace Corps volunteers be picked for a post without competing?",
        f"{_HIRING}/hiring-authorities.md",
    ),
    (
        "Is a mother's maiden name regarded as risky personal data?",
        "launching-software/privacy.md",
    ),
    (
        "May I tweet about what my team is working on?",
        "office-of-operations/social-media.md",
    ),
    (
        "By what day must this year's performance plans be acknowledged?",
        "performance-management/dates.md",
    ),
    (
        "I just became a manager and know nothing yet. Is it fine to keep asking things?",
        "supervisor-resources/new-supervisor-playbook/play-4.md",
    ),
    (
        "What effect does it have on my staff if I work nights and weekends as their boss?",
        "supervisor-resources/new-supervisor-playbook/play-12.md",
    ),
    (
        "How do I get a paid seat so that I can edit bases rather than only read them?",
        "tools/airtable.md",
    ),
    (
        "How do I get mail links to open in my browser inbox?",
        "tools/gmail.md",
    ),
    (
        "How can people outside the agency be let onto one of our mailing lists?",
        "tools/google-groups.md",
    ),
    (
        "May the general public be invited into our chat workspace as guests?",
        "tools/slack/external-collaboration.md",
    ),
    (
        "Which bot pairs me with a random coworker for a virtual tea?",
        "tools/slack/integrations.md",
    ),
    (
        "What happens to somebody's chat account when they depart?",
        "tools/slack/user-management.md",
    ),
    (
        "How do I reach the intranet from a computer that isn't government issued?",
        "tools/virtual-desktop.md",
    ),
    (
        "Where do I write down my goals for growing my professional skills?",
        f"{_TRAINING}/idp.md",
    ),
    (
        "How many hours can I borrow when I'm ill and my balance is used up?",
        f"{_LEAVE}/advanced-sick-leave.md",
    ),
    (
        "I earn the top salary. How am I repaid for staying late?",
        f"{_LEAVE}/overtime.md",
    ),
    (
        "Am I charged for my hotel reservation before my trip is approved?",
        f"{_TRAVEL}/travel-guide-2-book-travel.md",
    ),
    (
        "I have to fly tonight and nobody signed off on it. Whom do I phone?",
        f"{_TRAVEL}/travel-guide-b-after-hours-emergency-travel-authorizations.md",
    ),
    (
        "Who set up the advisory body that coordinates our web products, and when?",
        "about-us/digital-council.md",
    ),
    (
        "How do I put a menu on the left side of a page I am editing here?",
        "updating-the-handbook/components.md",
    ),
    (
        "What goes between the three dashes at the top of a page?",
        "updating-the-handbook/frontmatter.md",
    ),
    (
        "How do I order cards with my name to hand out at a meeting?",
        f"{_GENERAL}/purchase-requests.md",
    ),
    (
        "I have a medical condition and need my job adjusted. Who handles that?",
        f"{_GENERAL}/reasonable-accommodations.md",
    ),
    (
        "Do IP addresses and account IDs have to be kept out of public view?",
        f"{_GENERAL}/sensitive-information.md",
    ),
    (
        "My mortgage lender wants proof of my income. What number should they call?",
        f"{_RULES}/employment-verification.md",
    ),
    (
        "Will the government help pay for my bus and train commute?",
        f"{_RULES}/transit-benefit.md",
    ),
    (
        "Can we pay an outside expert who gives a talk to our guild?",
        f"{_RULES}/hosting-non-government-speakers.md",
    ),
    (
        "Who decides how much a researcher earns for finding a hole in our site?",
        f"{_TECH}/bug-bounty.md",
    ),
    (
        "Which program should hold all my logins so that I only memorize a few?",
        f"{_TECH}/password-requirements.md",
    ),
    (
        "I clicked something fishy. Should I shut down my computer, and how fast must I tell IT?",
        f"{_TECH}/security-incidents.md",
    ),
    (
        "I'm quitting. How far ahead do I have to begin the paperwork?",
        f"{_HIRING}/leaving-tts.md",
    ),
    (
        "Can I be moved up a grade because I did well, as in a private company?",
        f"{_HIRING}/promotions.md",
    ),
    (
        "How many pages should a CV for a federal job have?",
        f"{_HIRING}/resume.md",
    ),
    (
        "Do changes made in the browser on the code hosting site need a cryptographic signature?",
        "tools/git-signing.md",
    ),
    (
        "Which code do I bill when I'm away for two months after an operation?",
        "tools/tock.md",
    ),
    (
        "How do I host a video conference of more than 40 minutes?",
        "tools/zoom.md",
    ),
    (
        "How many weeks off without pay may I take to look after my injured soldier son?",
        f"{_LEAVE}/fmla.md",
    ),
    (
        "We are adopting a baby. Do I have to promise to come back to work afterwards?",
        f"{_LEAVE}/paid-parental-leave.md",
    ),
    (
        "Can colleagues give me their vacation days during a family emergency?",
        f"{_LEAVE}/voluntary-leave-transfer-program.md",
    ),
    (
        "Do I have to tell anyone about a holiday abroad if I hold a clearance?",
        f"{_LEAVE}/going-out-of-office.md",
    ),
)

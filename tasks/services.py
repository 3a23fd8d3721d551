"""Creating and changing tasks, and agreeing to their unattended work.

Saving is agreeing: a task is stored together with its owner's consent to exactly what was stored,
or not at all. Locks: the task. Whether a due task may really run is decided later, each time, by
`tasks.delegation`.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from accounts import relation
from accounts.authority import Authority, Capability, Channel
from accounts.models import User
from accounts.permissions import Origin, Verb, store_grant
from agents.queries import get_usable_agent
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.text import make_storable
from tasks.delegation import MOST_DAYS, compute_digest, read_agent
from tasks.models import Delegation, Task
from tasks.schedule import next_due, parse_cron, parse_zone

LONGEST_NAME = 120
LONGEST_CRON = 120
LONGEST_PROMPT = 20_000
TICK = "Tick that the agent may work with your rights while you are away; without it nothing runs."


@transaction.atomic
def save_task(
    authority: Authority,
    *,
    task: Task | None = None,
    name: str,
    agent_id: UUID | str,
    prompt: str,
    cron: str,
    time_zone: str,
    consent: bool,
    days: int = MOST_DAYS,
) -> Task:
    """Create a task, or change `task`, and record its owner's consent for `days` days.

    Earlier consent ends in the same transaction. Locks the task.

    Raises: Invalid: a field, or the missing tick; `data["errors"]` has a sentence for each field.
    Missing, Denied: no right to the task or the agent, or the caller isn't the person whose rights
    are lent. Conflict: the task is archived, or the agent can't be used.
    """
    _check_person(authority)
    task = None if task is None else _lock(authority, task, Verb.CHANGE)
    if task is not None:
        _check_owner(authority, task)
    name, prompt = make_storable(name).text.strip(), make_storable(prompt).text.strip()
    cron, time_zone = _check_fields(
        name=name, prompt=prompt, cron=cron, time_zone=time_zone, consent=consent, days=days
    )
    agent = get_usable_agent(authority, agent_id)
    if task is None:
        task = Task(organization_id=authority.organization_id, owner_id=authority.user_id)
    task.name, task.prompt, task.agent = name, prompt, agent
    task.cron, task.time_zone = cron, time_zone
    task.next_due_at = next_due(cron, time_zone, now())
    is_new = task._state.adding
    task.save(force_insert=is_new)
    if is_new:
        owner = User.objects.get(pk=authority.user_id)
        store_grant(owner, Verb.MANAGE, task, granted_by_id=owner.pk, origin=Origin.SHARE)
    record(
        authority,
        "tasks.saved",
        subject=task,
        data={"agent": str(agent.pk), "cron": cron, "time_zone": time_zone, "new": is_new},
    )
    _consent(authority, task, days=days)
    return task


@transaction.atomic
def renew_consent(
    authority: Authority, *, task: Task, consent: bool, days: int = MOST_DAYS
) -> Delegation:
    """Agree again to the task and its agent as they are now, for `days` days.

    Locks the task. Raises Invalid without the tick, Denied unless the caller is the owner, Conflict
    when the task is archived or its agent can't be used.
    """
    _check_person(authority)
    task = _lock(authority, task, Verb.CHANGE)
    _check_owner(authority, task)
    errors = _check_consent(consent=consent, days=days)
    if errors:
        raise _invalid(errors)
    get_usable_agent(authority, task.agent_id)
    return _consent(authority, task, days=days)


@transaction.atomic
def revoke_consent(authority: Authority, *, task: Task) -> None:
    """End the consent: nothing more starts, and what is running is stopped. Locks the task.

    Raises Missing or Denied unless the caller may manage the task.
    """
    task = _lock(authority, task, Verb.MANAGE)
    _revoke(authority, task)


@transaction.atomic
def pause(authority: Authority, *, task: Task) -> Task:
    """Let no further due time start; what is running goes on. Locks the task.

    Who may configure the organisation may pause any task of it. Raises Missing, Denied, Conflict.
    """
    verb = None if authority.may(Capability.CONFIGURE) else Verb.CHANGE
    return _set_state(authority, _lock(authority, task, verb), Task.State.PAUSED)


@transaction.atomic
def resume(authority: Authority, *, task: Task) -> Task:
    """Go on from the next due time; those that passed meanwhile stay out. Locks the task.

    Gives no consent: where that is missing, each due time is refused and says so. Raises Missing,
    Denied, Conflict; Invalid when the schedule never comes due again.
    """
    task = _lock(authority, task, Verb.CHANGE)
    task.next_due_at = next_due(task.cron, task.time_zone, now())
    return _set_state(authority, task, Task.State.ACTIVE)


@transaction.atomic
def archive(authority: Authority, *, task: Task) -> None:
    """Put the task away for good, with its consent.

    Its results stay. Locks the task. Raises Missing, Denied.
    """
    task = _lock(authority, task, Verb.MANAGE, is_archived_fine=True)
    if task.state == Task.State.ARCHIVED:
        return
    _revoke(authority, task)
    Task.objects.filter(pk=task.pk).update(state=Task.State.ARCHIVED, next_due_at=None)
    record(authority, "tasks.archived", subject=task)


def _consent(authority: Authority, task: Task, *, days: int) -> Delegation:
    Delegation.objects.filter(task=task, revoked_at=None).update(revoked_at=Now())
    granted_at = now()
    delegation = Delegation.objects.create(
        organization_id=authority.organization_id,
        task=task,
        user_id=authority.user_id,
        digest=compute_digest(task, read_agent(task)),
        granted_at=granted_at,
        expires_at=granted_at + timedelta(days=days),
    )
    record(
        authority,
        "tasks.consented",
        subject=task,
        data={
            "delegation": str(delegation.pk),
            "digest": delegation.digest,
            "expires_at": delegation.expires_at.isoformat(),
        },
    )
    return delegation


def _revoke(authority: Authority, task: Task) -> None:
    ended = Delegation.objects.filter(task=task, revoked_at=None).update(revoked_at=Now())
    if ended:
        record(authority, "tasks.consent_revoked", subject=task)
        enqueue("tasks.settle")


def _set_state(authority: Authority, task: Task, state: Task.State) -> Task:
    if task.state != state:
        task.state = state
        task.save(update_fields=["state", "next_due_at"])
        record(authority, "tasks.saved", subject=task, data={"state": str(state)})
    return task


def _lock(
    authority: Authority, task: Task, verb: Verb | None, *, is_archived_fine: bool = False
) -> Task:
    """The task, locked. Without a verb the role answers for every task of the organisation."""
    if verb is not None:
        relation.get(authority, Task, task.pk, verb)
    locked: Task | None = (
        Task.objects.select_for_update().for_authority(authority).filter(pk=task.pk).first()
    )
    if locked is None:
        raise Missing
    if locked.state == Task.State.ARCHIVED and not is_archived_fine:
        raise Conflict("This task is archived.")
    return locked


def _check_person(authority: Authority) -> None:
    # What happens inside a run was decided by a model: it must not widen its own future.
    if authority.narrowing is not None or authority.channel in (Channel.RUN, Channel.DELEGATION):
        raise Denied("Only a person can agree to unattended work.")


def _check_owner(authority: Authority, task: Task) -> None:
    if task.owner_id != authority.user_id:
        raise Denied("This task works with its owner's rights, so only its owner can change it.")


def _check_fields(
    *, name: str, prompt: str, cron: str, time_zone: str, consent: bool, days: int
) -> tuple[str, str]:
    """The rule and the zone as they are stored. Raises Invalid with one sentence a field."""
    errors: dict[str, str] = {}
    if not name:
        errors["name"] = "Give the task a name."
    elif len(name) > LONGEST_NAME:
        errors["name"] = f"A name has at most {LONGEST_NAME} characters."
    if not prompt:
        errors["prompt"] = "Say what the agent is to do."
    elif len(prompt) > LONGEST_PROMPT:
        errors["prompt"] = f"This has at most {LONGEST_PROMPT} characters."
    if len(cron) > LONGEST_CRON:
        errors["cron"] = f"A schedule has at most {LONGEST_CRON} characters."
    else:
        try:
            cron = parse_cron(cron)
        except Invalid as error:
            errors["cron"] = error.message
    try:
        parse_zone(time_zone)
    except Invalid as error:
        errors["time_zone"] = error.message
    errors |= _check_consent(consent=consent, days=days)
    if errors:
        raise _invalid(errors)
    return cron, time_zone


def _check_consent(*, consent: bool, days: int) -> dict[str, str]:
    errors: dict[str, str] = {}
    if consent is not True:
        errors["consent"] = TICK
    if not 1 <= days <= MOST_DAYS:
        errors["days"] = f"An agreement lasts from 1 to {MOST_DAYS} days."
    return errors


def _invalid(errors: dict[str, str]) -> Invalid:
    return Invalid(
        next(iter(errors.values())), data={"errors": {k: [v] for k, v in errors.items()}}
    )

"""Which replicas may be picked, as they are listed, checked, ejected and unlisted."""

from __future__ import annotations

from fakes_router import healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

A, B, C = Address("a", 1), Address("b", 1), Address("c", 1)


def test_new_replica_waits_for_a_good_check() -> None:
    replicas = ReplicaSet()
    replicas.replace([A])
    before = replicas.healthy

    replicas.admit(replicas.by_url["http://a:1"])

    assert before == ()
    assert [replica.url for replica in replicas.healthy] == ["http://a:1"]


def test_unlisted_replica_finishes_its_requests_first() -> None:
    replicas, (one, _) = healthy_replicas(2)
    replicas.start(one, 10)

    replicas.replace([])
    listed_while_busy = one.url in replicas.by_url
    replicas.finish(one)

    assert replicas.healthy == ()
    assert listed_while_busy
    assert one.url not in replicas.by_url


def test_connection_to_a_replica_that_is_out_waits_for_no_further_request() -> None:
    replicas, (one, _) = healthy_replicas(2)
    before = one.usable_pool(1)

    replicas.eject(one, "test")

    assert (before, one.usable_pool(1)) == (True, False)


def test_replica_listed_again_is_checked_again() -> None:
    replicas, (one, _) = healthy_replicas(2)
    replicas.start(one, 0)
    replicas.replace([])

    replicas.replace([one.address])

    assert one.state is State.NEW
    assert replicas.by_url[one.url] is one


def test_a_good_check_does_not_bring_back_what_is_leaving() -> None:
    replicas, (one, _) = healthy_replicas(2)
    replicas.start(one, 0)
    replicas.replace([])

    replicas.admit(one)

    assert one.state is State.LEAVING


@given(st.lists(st.tuples(st.sampled_from(["list", "admit", "eject", "start", "finish"]), st.integers(0, 3))))
def test_counts_and_choice_hold_through_any_history(steps: list[tuple[str, int]]) -> None:
    replicas = ReplicaSet()
    replicas.replace(Address(f"r{i}", 1) for i in range(4))
    known = list(replicas.by_url.values())
    open_requests = []

    for step, number in steps:
        replica = known[number]
        if step == "list":
            replicas.replace(Address(f"r{i}", 1) for i in range(4) if i != number)
        elif step == "admit":
            replicas.admit(replica)
        elif step == "eject":
            replicas.eject(replica, "test")
        elif step == "start":
            replicas.start(replica, 0)
            open_requests.append(replica)
        elif open_requests:
            replicas.finish(open_requests.pop())
        known = [replicas.by_url.get(f"http://r{i}:1", known[i]) for i in range(4)]

    assert replicas.in_flight == len(open_requests)
    assert all(replica.in_flight == open_requests.count(replica) for replica in known)
    assert all(replica.state is State.HEALTHY for replica in replicas.healthy)
    assert all(replicas.by_url[replica.url] is replica for replica in replicas.healthy)


def test_what_changes_nobody_that_is_healthy_leaves_their_list_as_it_is() -> None:
    """Lists of thousands come and go: to make it anew for each of them would keep all requests waiting."""
    replicas, every = healthy_replicas(3)
    healthy = replicas.healthy

    replicas.replace([A, B, *(one.address for one in every)])
    replicas.eject(replicas.by_url["http://a:1"], "test")
    replicas.replace([one.address for one in every])

    assert replicas.healthy is healthy
    assert set(healthy) == set(every)


@given(st.lists(st.tuples(st.sampled_from(["list", "admit", "eject"]), st.integers(0, 5)), max_size=40))
def test_the_healthy_are_those_in_that_state_in_the_order_of_admission(steps: list[tuple[str, int]]) -> None:
    replicas = ReplicaSet()
    plain: list[str] = []

    for what, number in steps:
        url = f"http://10.0.0.{number}:1"
        replica = replicas.by_url.get(url)
        if what == "list":
            replicas.replace(Address(f"10.0.0.{n}", 1) for n in range(6) if n != number)
        elif what == "admit" and replica is not None:
            replicas.admit(replica)
            plain += [url] if url not in plain else []
        elif what == "eject" and replica is not None:
            replicas.eject(replica, "test")
        plain = [one for one in plain if getattr(replicas.by_url.get(one), "state", None) is State.HEALTHY]

        assert [one.url for one in replicas.healthy] == plain
        assert replicas.num_healthy == len(plain)
        assert replicas.healthy is replicas.healthy
        assert replicas.longest_healthy is (replicas.healthy[0] if plain else None)


def switched() -> tuple[ReplicaSet, Replica, Replica]:
    """One that is healthy and no longer listed, and one that came in its place."""
    replicas = ReplicaSet()
    replicas.replace([A])
    old = replicas.by_url[f"http://{A}"]
    replicas.admit(old)
    replicas.change([B], [A])
    return replicas, old, replicas.by_url[f"http://{B}"]


def test_the_last_that_may_be_picked_stay_until_one_that_came_is_healthy() -> None:
    """As when a Service selects other pods at once: both are ready in the cluster's eyes."""
    replicas, old, new = switched()
    before = replicas.healthy

    replicas.admit(new)

    assert (before, replicas.healthy) == ((old,), (new,))
    assert list(replicas.by_url.values()) == [new]


def test_a_replica_that_was_to_stay_for_others_leaves_as_soon_as_it_is_not_healthy() -> None:
    replicas, old, new = switched()

    replicas.eject(old, "test")

    assert list(replicas.by_url.values()) == [new]


def test_a_replica_that_was_to_stay_for_others_leaves_when_those_do() -> None:
    replicas, _, _ = switched()

    replicas.change([], [B])

    assert replicas.by_url == {}


def test_a_replica_that_is_listed_again_is_no_longer_to_leave() -> None:
    replicas, old, new = switched()

    replicas.change([A], [])
    replicas.admit(new)

    assert replicas.healthy == (old, new)


def test_those_that_leave_beside_others_do_so_at_once() -> None:
    replicas = ReplicaSet()
    replicas.replace([A, B])
    for replica in list(replicas.by_url.values()):
        replicas.admit(replica)

    replicas.change([C], [A])

    assert [replica.address for replica in replicas.healthy] == [B]
    assert f"http://{A}" not in replicas.by_url


def test_all_that_leave_with_nobody_in_their_place_do_so_at_once() -> None:
    replicas = ReplicaSet()
    replicas.replace([A, B])
    replicas.admit(replicas.by_url[f"http://{A}"])

    replicas.replace([])

    assert replicas.by_url == {}


@given(
    st.lists(st.tuples(st.sampled_from(["list", "admit", "eject"]), st.sets(st.integers(0, 3))), max_size=30)
)
def test_no_list_that_names_replicas_takes_the_last_healthy_one(steps: list[tuple[str, set[int]]]) -> None:
    """While one of those that it names may become healthy; and what is to leave does once one is."""
    replicas, addresses = ReplicaSet(), [Address("10.0.0.1", 8000 + number) for number in range(4)]
    listed: set[Address] = set()

    for what, numbers in steps:
        some = {addresses[number] for number in numbers}
        before = replicas.num_healthy
        if what == "list":
            listed = some
            replicas.replace(some)
            is_new = any(replica.state is State.NEW for replica in replicas.by_url.values())
            assert replicas.num_healthy or not before or not is_new
        for replica in [r for r in list(replicas.by_url.values()) if r.address in some and what != "list"]:
            if what == "admit":
                replicas.admit(replica)
            else:
                replicas.eject(replica, "test")

        healthy = {replica.address for replica in replicas.healthy}
        assert healthy <= listed or not healthy & listed
        assert listed <= {replica.address for replica in replicas.by_url.values()}

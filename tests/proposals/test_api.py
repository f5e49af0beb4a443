"""How is a package proposed from a program, and what does bad input get?"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.proposals.models import PackageProposal, ProposalTest
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db
PATH = "/api/v1/proposals"


@pytest.fixture
def api(author: User) -> APIClient:
    return client_of(author)


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def texts(files: dict[str, bytes]) -> dict[str, str]:
    return {path: content.decode() for path, content in files.items()}


def body(**changes: Any) -> dict[str, Any]:
    return {"manifest": made.manifest(), "files": texts(made.tree()), **changes}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def whole(**changes: Any) -> dict[str, bytes]:
    return {"kaizen.json": json.dumps(made.manifest(**changes)).encode(), **made.tree()}


def test_a_draft_is_made_from_json(api: APIClient) -> None:
    answer = api.post(PATH, body(note="First."), format="json")
    assert answer.status_code == 201, answer.data
    made_one = answer.json()
    assert made_one["ref"] == "weather@1.0.0"
    assert (made_one["state"], made_one["revision"], made_one["tested"]) == ("draft", 1, False)
    assert made_one["author"]["username"] == "mara"
    assert [file["path"] for file in made_one["files"]] == sorted(made.tree())
    assert all(file["digest"].startswith("sha256:") for file in made_one["files"])
    assert made_one["manifest"] == made.manifest()
    assert api.get(f"{PATH}/{made_one['id']}").json() == made_one


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_draft_is_made_from_an_archive(api: APIClient, kind: str) -> None:
    if kind == "zip":
        raw = zipped(whole())
    else:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for path, content in whole().items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        raw = buffer.getvalue()
    upload = SimpleUploadedFile(f"weather.{kind}", raw)
    answer = api.post(PATH, {"archive": upload, "note": "Sent."}, format="multipart")
    assert answer.status_code == 201, answer.data
    as_json = client_of(User.objects.create_user("twin")).post(PATH, body(), format="json").json()
    assert answer.json()["artifact_hash"] == as_json["artifact_hash"]
    assert answer.json()["contract_digest"] == as_json["contract_digest"]


def test_a_repeat_with_the_same_key_changes_nothing(api: APIClient) -> None:
    first = api.post(PATH, body(), format="json", headers={"Idempotency-Key": "k1"})
    again = api.post(PATH, body(), format="json", headers={"Idempotency-Key": "k1"})
    assert first.json() == again.json()
    assert PackageProposal.objects.count() == 1


@pytest.mark.parametrize(
    ("sent", "status", "code", "field"),
    [
        (body(colour="red"), 422, "invalid", "colour"),
        ({"files": {}}, 422, "invalid", "manifest"),
        (body(files={"a.py": 7}), 422, "invalid", "files.a.py"),
        (body(files=["a"]), 422, "invalid", "files"),
        (body(manifest=[]), 422, "invalid_package", "manifest"),
        (body(manifest=made.manifest(skills=["x"])), 422, "invalid_package", "manifest.skills"),
        (
            body(files={**texts(made.tree()), "/etc/x": ""}),
            422,
            "invalid_package",
            "files./etc/x",
        ),
        (body(note="x" * 501), 422, "invalid", "note"),
    ],
)
def test_bad_input_names_the_field(
    api: APIClient, sent: dict[str, Any], status: int, code: str, field: str
) -> None:
    answer = api.post(PATH, sent, format="json")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert problem["field"] == field
    assert field in [error["field"] for error in problem["errors"]]
    assert answer["Content-Type"] == "application/problem+json"


def test_too_large_a_tree_is_refused_by_rule_and_too_large_a_body_by_size(api: APIClient) -> None:
    large = {f"f{n}.txt": "x" * 120_000 for n in range(10)} | texts(made.tree())
    answer = api.post(PATH, body(files=large), format="json")
    assert (answer.status_code, answer.json()["errors"][0]["rule"]) == (422, "tree_size")
    huge = {f"f{n}.txt": "x" * 120_000 for n in range(40)}
    answer = api.post(PATH, body(files=huge), format="json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    upload = SimpleUploadedFile("x.zip", b"x" * (3 * 1024 * 1024))
    answer = api.post(PATH, {"archive": upload}, format="multipart")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert not PackageProposal.objects.exists()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"no archive", "archive"),
        (zipped(made.tree()), "archive.kaizen.json"),
        (zipped({"kaizen.json": b"{"}), "archive.kaizen.json"),
        (zipped(whole())[:-30], "archive"),
        (b"", "archive"),
    ],
)
def test_a_bad_archive_is_named(api: APIClient, raw: bytes, field: str) -> None:
    upload = SimpleUploadedFile("x.zip", raw)
    answer = api.post(PATH, {"archive": upload}, format="multipart")
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, field), problem


def test_json_with_two_meanings_is_refused(api: APIClient) -> None:
    answer = api.post(PATH, b'{"note": "a", "note": "b"}', content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")


def test_a_draft_is_replaced_at_the_revision_that_was_read(
    api: APIClient, draft: PackageProposal
) -> None:
    files = texts(made.tree(weather_py=b"x = 1\n"))
    answer = api.put(f"{PATH}/{draft.pk}", {"revision": 1, "files": files}, format="json")
    assert (answer.status_code, answer.json()["revision"]) == (200, 2)
    stale = api.put(f"{PATH}/{draft.pk}", {"revision": 1, "files": files}, format="json")
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_revision")
    assert stale.json()["revision"] == 2


def test_a_test_is_asked_for_and_watched(api: APIClient, draft: PackageProposal) -> None:
    asked = api.post(f"{PATH}/{draft.pk}/test", format="json")
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    assert asked.json()["current"] is True
    ProposalTest.objects.update(state="running", output="test_one ... ")
    seen = api.get(f"{PATH}/{draft.pk}/tests/{asked.json()['id']}").json()
    assert (seen["state"], seen["output"]) == ("running", "test_one ... ")
    assert [one["id"] for one in api.get(f"{PATH}/{draft.pk}/tests").json()["results"]] == [
        asked.json()["id"]
    ]


def test_submitting_untested_is_a_conflict_and_tested_works(
    api: APIClient, draft: PackageProposal
) -> None:
    refused = api.post(f"{PATH}/{draft.pk}/submit", format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_current_receipt")
    give_receipt(draft)
    answer = api.post(f"{PATH}/{draft.pk}/submit", {"note": "Ready."}, format="json")
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["note"]) == ("submitted", "Ready.")
    assert answer.json()["tested"] is True


def test_withdrawing_is_final(api: APIClient, draft: PackageProposal) -> None:
    assert api.delete(f"{PATH}/{draft.pk}").status_code == 204
    assert api.get(f"{PATH}/{draft.pk}").json()["state"] == "withdrawn"
    assert api.delete(f"{PATH}/{draft.pk}").status_code == 409


def test_others_see_nothing_and_reviewers_see_what_was_submitted(
    draft: PackageProposal, other: User, reviewer: User, author: User
) -> None:
    test = ProposalTest.objects.create(
        proposal=draft, artifact_hash="", contract_digest="", requested_by=author,
        correlation_id="", state="failed",
    )  # fmt: skip
    addresses = (
        f"{PATH}/{draft.pk}",
        f"{PATH}/{draft.pk}/tests",
        f"{PATH}/{draft.pk}/tests/{test.pk}",
    )
    for address in addresses:
        assert client_of(other).get(address).status_code == 404
        assert client_of(reviewer).get(address).status_code == 404
    PackageProposal.objects.update(state="submitted")
    for address in addresses:
        assert client_of(other).get(address).status_code == 404
        assert client_of(reviewer).get(address).status_code == 200
    assert client_of(reviewer).delete(f"{PATH}/{draft.pk}").status_code == 404


def test_the_list_is_ones_own_by_state_in_few_queries(
    api: APIClient, draft: PackageProposal, author: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        name = f"pack{number}"
        manifest = made.manifest(name, "1.0.0", made.definition(f"{name}.t"))
        api.post(PATH, {"manifest": manifest, "files": texts(made.tree(name))}, format="json")
    api.delete(f"{PATH}/{draft.pk}")
    with django_assert_max_num_queries(4):
        seen = api.get(PATH + "?state=draft").json()
    assert len(seen["results"]) == 5
    assert api.get(PATH + "?state=odd").status_code == 422


def test_nobody_without_a_sign_in(db: None) -> None:
    assert APIClient().get(PATH).status_code == 401

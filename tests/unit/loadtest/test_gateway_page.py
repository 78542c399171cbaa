"""The page of the gateway's benches agrees with their results, with one format of ranges."""

from loadtest import gateway_page
from loadtest.pages import RESULTS


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    assert (RESULTS / "gateway.md").read_text("utf-8") == gateway_page.of(RESULTS)


def test_a_cell_is_the_lowest_to_the_highest_and_a_variant_is_compared_round_by_round() -> None:
    said = {"command": "c", "machine": "m"}
    rounds = [
        dict.fromkeys(("us_per_event", "requests_per_s", "p50_ms", "p99_ms"), n) for n in (400, 100, 200)
    ]
    plain = [{"cpu": cpu, "bare": 2.0, "per_second": 7.0, "p50": 1.0, "p99": 3.0} for cpu in (10.0, 20.0)]
    dearer = [row | {"cpu": row["cpu"] * factor} for row, factor in zip(plain, (1.5, 1.25), strict=True)]
    page = gateway_page.page(
        said | {"cases": [{"names": 40, "rounds": rounds}]},
        [said | {"scenarios": {"batches": plain, "batches, TLS": dearer}}],
        said | {"limit_mib": 356.0, "floods": [{"flood": "f", "before_mib": 64.3, "most_mib": 170.4}]},
    )
    assert "| 40 | 100 to 400 |" in page
    assert "| batches | 10.0 to 20.0 | 1 | 2 |" in page
    assert "| batches, TLS | 15.0 to 25.0 | 1.25 to 1.5 | 2 |" in page
    assert "| f | 64 | 170 | 356 |" in page

from flow import daily, double


def test_double():
    assert double({"id": 1, "units": 3}) == 6


def test_daily():
    assert daily.run(day="2026-01-31").outputs["load"] == 16

"""Orders of a day, priced and reported: a flow of twelve tasks.

It shows a call over HTTP, a task that is tried again, a map over a list,
tasks with and without their condition met, and a report at the end.

    python flow.py        # runs here; needs Millrace's Python package on PYTHONPATH
"""

from millrace import flow, http, task, transform


@task(retries=2, retry_backoff={"delay_secs": 1})
def extract(ctx, day):
    """Read the day's orders. The first attempt finds the source busy."""
    if ctx.attempt == 1:
        raise ConnectionError("the order system is busy")
    ctx.log("orders read", day=day)
    return [
        {"id": n, "customer": n % 3, "sku": ["tea", "jam", "oat"][n % 3], "units": 1 + n % 4, "paid": n % 5 != 0}
        for n in range(1, 13)
    ]


@task
def customers():
    print("reading customers")
    return {"0": "Ada", "1": "Grace", "2": "Edsger"}


@task
def check(prices, extract):
    """Raise an error if the price list does not cover the orders."""
    known = prices["json"]
    missing = sorted({order["sku"] for order in extract} - set(known))
    if missing:
        raise ValueError(f"no price for {', '.join(missing)}")
    return known


@task
def price(item, index, check):
    """Price a paid order; one instance for each."""
    amount = item["units"] * check[item["sku"]]
    print(f"order {item['id']} (instance {index}): {amount}")
    return {**item, "amount": amount}


@task
def by_customer(price, customers):
    sums = {}
    for order in price:
        name = customers[str(order["customer"])]
        sums[name] = sums.get(name, 0) + order["amount"]
    return sums


@task
def total(price):
    return sum(order["amount"] for order in price)


@task
def remind(unpaid):
    print(f"{len(unpaid)} orders are not paid yet")
    return [order["id"] for order in unpaid]


@task
def escalate(total):
    raise RuntimeError("never reached: the day's total is not that large")


@task(trigger_rule="none_failed")
def report(ctx, day, by_customer, total):
    lines = [f"{name}: {amount}" for name, amount in sorted(by_customer.items())]
    ctx.log("report written", customers=len(lines), total=total)
    return "\n".join([f"Sales of {day}", *lines, f"total: {total}"])


@flow(name="etl", version="1", timeout_secs=120)
def etl(day: str = "2026-01-31", prices_url: str = "http://127.0.0.1:8000/prices.json"):
    prices = http("prices", "${{ params.prices_url }}", retries=2)
    orders = extract(day)
    names = customers()
    known = check(prices, orders)
    paid = transform("paid", "tasks.extract.output.filter(o, o.paid)")
    unpaid = transform("unpaid", "tasks.extract.output.filter(o, !o.paid)")
    priced = price.map(paid, known)
    sums = by_customer(priced, names)
    whole = total(priced)
    remind.with_options(condition="size(tasks.unpaid.output) > 0")(unpaid)
    late = escalate.with_options(condition="tasks.total.output > 1000")(whole)
    report(day, sums, whole).after(late)


if __name__ == "__main__":
    etl()

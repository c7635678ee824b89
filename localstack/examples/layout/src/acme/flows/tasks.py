"""Tasks that several flows use."""

from millrace import task

from .. import CURRENCY
from ..lib import price_of


@task
def price(sku, units: int = 1):
    return {"sku": sku, "amount": units * price_of(sku), "currency": CURRENCY}

"""The code of a company, as a package."""

CURRENCY = "EUR"

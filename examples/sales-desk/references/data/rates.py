# The tax rates of the shop, in percent.
RATES = {"books": 7, "other": 19}

"""What the controller decides: pure functions from a request and a view to transactions.

Time, chance and the store are outside; `tidelog_controller.controller` carries the plans out.
"""

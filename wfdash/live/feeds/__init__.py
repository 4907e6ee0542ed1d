"""The events of watched runs, read and written once for all viewers."""

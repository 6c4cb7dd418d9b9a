"""The windows that the identified control had, with what its replay adds to them."""

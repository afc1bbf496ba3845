"""The stores that L2 can lie in; what each of them promises stands in `backend`."""

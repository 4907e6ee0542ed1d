"""For how long ended runs are kept, and what keeps one for longer: for the removal, and for those who look before."""

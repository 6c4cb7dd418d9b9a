"""Controls that follow a rate: BBR."""

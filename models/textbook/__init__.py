"""The laws of rate against loss that every text on TCP has, in the papers' form: one file per law."""

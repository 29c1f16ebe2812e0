"""HTTP to a judge: addresses, connections, one request and its whole reply (J22). It knows no verdicts and no tries."""

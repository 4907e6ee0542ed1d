"""What the several processes of one run of the tests share: who runs what, and who compiles what."""

"""One module per engine, found by listing this folder; see ``template`` in CONTRIBUTING for how to add one."""

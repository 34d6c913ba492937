"""What several tests share: fakes, laboratories of real schedulers, strategies, oracles and checks of the run."""

"""OAR: nodes, jobs and holders by the commands of its users."""

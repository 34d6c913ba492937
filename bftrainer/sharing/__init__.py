"""Division of idle nodes among the pilots of several users: pure, the same in every pilot and in a
broker.
"""

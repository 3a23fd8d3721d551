import cProfile, pstats, time
import numpy as np, pytest
from tests.retrieval.test_recall import *
def test_prof(own_database):
    v,t=clustered(np.random.default_rng(1),5000)
    pr=cProfile.Profile(); pr.enable(); t0=time.time(); make_shelf(v); print('shelf',time.time()-t0); pr.disable()
    pstats.Stats(pr).sort_stats('cumtime').print_stats(22)

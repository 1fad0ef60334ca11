"""Methods compared on the same items: Tables 1 to 5 of the paper, with error bars.

plan --> methods (a file each) --> runs (topics, debates, data, SFT, reward, PPO; shared)
     --> answers to the same items, every repeat --> results, comparisons, tables
"""

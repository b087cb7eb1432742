"""Workers without work."""
import multiprocessing
import time

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        pool.map(abs, range(9))
        time.sleep(1000)

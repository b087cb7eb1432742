"""A job every two seconds."""
import multiprocessing
import time


def work(jobs, results):
    while True:
        results.put(jobs.get() + 1)


if __name__ == "__main__":
    jobs, results = multiprocessing.Queue(), multiprocessing.Queue()
    multiprocessing.Process(target=work, args=(jobs, results), daemon=True).start()
    while True:
        jobs.put(1)
        results.get()
        time.sleep(2)

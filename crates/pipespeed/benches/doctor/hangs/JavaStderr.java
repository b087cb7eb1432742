// yes waits for room in its standard error: the standard output is read to its end first.
public class JavaStderr {
    public static void main(String[] arguments) throws Exception {
        Process child = new ProcessBuilder("sh", "-c", "yes >&2; echo done").start();
        System.out.println(child.getInputStream().readAllBytes().length);
        System.out.println(child.getErrorStream().readAllBytes().length);
    }
}
